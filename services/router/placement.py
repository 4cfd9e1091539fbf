"""The vocabulary of a decision: what a request needs, what a worker offers, what was chosen.

Counts are tokens, 16-token units or blocks, and say which in their names. All of it is a hint built
from soft state: the worker alone grants blocks, and its refusal is planned again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from common.domain.errors import ErrorCode, ProtocolError
from common.domain.ids import ProcessId, UnitHash
from common.kv.hashing import UNIT_TOKENS
from common.wire.columns import unpack_hashes, unpack_i32
from common.wire.messages.submit import Submit


@dataclass(frozen=True, slots=True)
class Need:
    """What one attempt asks of the cluster."""

    prompt_tokens: int
    choices: int
    units: tuple[UnitHash, ...]
    block_tokens: int
    blocks: int
    """To emit one more token on every choice: whole prompt blocks once, a tail per choice."""
    one_token: bool
    """The prompt's first token is all there is to emit: no decode worker is needed."""

    @property
    def prompt_blocks(self) -> int:
        return -(-self.prompt_tokens // self.block_tokens)


def need_of(submit: Submit, block_tokens: int) -> Need:
    """Raises ProtocolError if a column of the submit makes no sense."""
    prompt_tokens = len(unpack_i32(submit.prompt))
    units = tuple(unpack_hashes(submit.units))
    if len(units) > prompt_tokens // UNIT_TOKENS:
        raise ProtocolError("more unit hashes than the prompt has units")
    choices = submit.sampling.n
    whole, tail = divmod(prompt_tokens, block_tokens)
    blocks = whole + choices * -(-(tail + 1) // block_tokens)
    sampling = submit.sampling
    one_token = sampling.max_tokens == 1 and not sampling.min_tokens
    return Need(prompt_tokens, choices, units, block_tokens, blocks, one_token)


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """What a worker is believed to carry; see load.py for where each number comes from."""

    pending_tokens: int = 0
    """Prompt tokens assigned to it and not computed yet."""
    recent_tokens: float = 0.0
    """New tokens assigned in about the last five seconds, computed or not."""
    repeated_tokens: float = 0.0
    """Those of them that came behind a prefix which was cached already."""
    sequences: int = 0
    context_blocks: int = 0
    """Blocks that its sequences read at every step: a shared block counts for each of them."""
    blocks_used: int = 0
    blocks_total: int = 0
    """0 until it has told."""

    @property
    def work_tokens(self) -> float:
        return max(self.pending_tokens, self.recent_tokens)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One worker as seen by one request."""

    process: ProcessId
    load: WorkerLoad
    available: bool = True
    """May be given new work now; otherwise it counts only for what the cluster could ever hold."""
    device_units: int = 0
    """Leading units of the prompt in its own cache."""
    host_units: int = 0
    """Leading units in the kvstore that it reads from."""

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that it need not compute, from wherever they come."""
        return max(self.device_units, self.host_units) * UNIT_TOKENS


@dataclass(frozen=True, slots=True)
class Cluster:
    """Every worker that does not drain."""

    decode: tuple[Candidate, ...]
    prefill: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """Who does what, and what that is expected to cost them."""

    writer: ProcessId
    prefill: ProcessId | None
    """None: the writer computes the prompt itself."""
    choices: int
    prompt_tokens: int
    uncached_tokens: int
    """Prompt tokens that whoever computes the prompt has to compute."""
    writer_new_tokens: int
    """Prompt tokens whose KV the writer does not hold on its device."""
    context_blocks: int
    new_blocks: int
    """Blocks that the writer has to allocate."""
    prefill_blocks: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """The attempt cannot be placed, now or ever."""

    code: ErrorCode
    message: str
    retryable: bool = False
    retry_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """No room at the moment."""


Outcome = Placement | Refusal | Wait


class Stage(IntEnum):
    """What a policy is asked to choose a worker for."""

    PREFILL = 1
    DECODE = 2


Draw = Callable[[int], int]
"""Draw(n): a number in range(n)."""


class Policy(Protocol):
    """One way to choose among workers that all could take the request. One object a router."""

    def choose(self, stage: Stage, need: Need, candidates: Sequence[Candidate]) -> Candidate:
        """One of `candidates`, which are never none and come in a stable order."""
