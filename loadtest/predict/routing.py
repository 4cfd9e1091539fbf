"""Which worker gets a request: the router's own rules, for a cluster whose caches it does not know.

services/router/policies/ decides in the product; loadtest imports no service, so the rules of the
two policies that look at load stand here again. Prompts are taken to be new to every worker: where
they are not, an engine finds what it has cached, but nobody sends them there for it. Pure.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

RECENT_S = 5.0
"""Tokens assigned t seconds ago count exp(-t / RECENT_S) as recent work."""


@dataclass(slots=True, eq=False)
class Account:
    """What one worker was given and has not ended."""

    pending_tokens: int = 0
    """Of prompts that it computes and has not computed yet."""
    sequences: int = 0
    blocks: int = 0
    _recent_tokens: float = 0.0
    _recent_at: float = 0.0

    def recent_tokens(self, now: float) -> float:
        return self._recent_tokens * math.exp((self._recent_at - now) / RECENT_S)

    def note_recent(self, tokens: int, now: float) -> None:
        self._recent_tokens, self._recent_at = self.recent_tokens(now) + tokens, now


Rank = Callable[[Account, float, int], tuple[float, ...]]
"""Of a worker's account now and, where it would decode, the tokens of a block (else 0): the least
is chosen, the first of equals."""


def least_loaded(account: Account, now: float, block_tokens: int) -> tuple[float, ...]:
    """Sequences, then work, then blocks."""
    work = max(account.pending_tokens, account.recent_tokens(now))
    return (account.sequences, work, account.blocks)


def kv_aware(account: Account, now: float, block_tokens: int) -> tuple[float, ...]:
    """Prompt tokens to come and, for decoding, context tokens; the prompt itself is the same
    everywhere."""
    cost = account.pending_tokens + block_tokens * account.blocks
    return (cost, *least_loaded(account, now, block_tokens))


DEFAULT_POLICY = "kv_aware"
POLICIES: Mapping[str, Rank] = MappingProxyType(
    {"kv_aware": kv_aware, "least_loaded": least_loaded}
)


def choose(
    accounts: Sequence[Account], rank: Rank, now: float, most: int, block_tokens: int = 0
) -> int | None:
    """The number of the worker; None: all have `most` sequences."""
    free = [number for number, account in enumerate(accounts) if account.sequences < most]
    return min(free, key=lambda number: rank(accounts[number], now, block_tokens), default=None)
