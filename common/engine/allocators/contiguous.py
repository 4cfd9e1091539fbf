"""One run of adjacent slots a sequence, for the prompt and all that it may generate: what servers
did before blocks (the baselines of the PagedAttention paper, named after Orca there).

They differ in how much they know of an output's length: nothing (`longest`), its next power of two,
or all of it. A run is the first one that is long enough, so memory fragments outside of runs as
well as inside. Nothing is shared: no prefix is matched, no block named, and every choice of a
request has a run and a copy of its own.
"""

from collections.abc import Callable

from common.engine.allocation import blocks_for
from common.engine.prefix_cache import PrefixCache
from common.engine.sequence import Sequence

Foresight = Callable[[int, int], int]
"""From max_tokens and the longest context to the tokens that an output is given room for."""


def longest(max_tokens: int, context_tokens: int) -> int:
    return context_tokens


def next_power_of_two(max_tokens: int, context_tokens: int) -> int:
    return 1 << (max_tokens - 1).bit_length()


def exactly(max_tokens: int, context_tokens: int) -> int:
    return max_tokens


class Contiguous:
    """Implements Allocator."""

    shares = False

    def __init__(
        self, cache: PrefixCache, block_tokens: int, context_tokens: int, *, foresight: Foresight
    ) -> None:
        self.cache = cache
        self._block_tokens = block_tokens
        self._context_tokens = context_tokens
        self._foresight = foresight

    def admits(self, waiting: Sequence, running: int) -> bool:
        """Those that run have all they will ever need."""
        return True

    def reserve(self, sequence: Sequence, tokens: int) -> bool:
        prompt, limit = len(sequence.prompt), self._context_tokens
        ahead = self._foresight(sequence.params.max_tokens, limit)
        room = max(tokens, min(prompt + ahead, limit))
        run = self.cache.allocate_run(blocks_for(room, self._block_tokens))
        if run is None:
            return False
        sequence.table = run
        sequence.computed = sequence.named = 0
        return True

    def fork(self, leader: Sequence, twin: Sequence) -> list[tuple[int, int]] | None:
        if not self.reserve(twin, leader.computed):
            return None
        twin.computed = leader.computed
        filled = blocks_for(leader.computed, self._block_tokens)
        return list(zip(leader.table[:filled], twin.table[:filled], strict=True))
