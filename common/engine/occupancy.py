"""How much of the KV pool holds something, integrated over time.

KV waste = 1 - live slots / allocated slots (in token slots, over the time requests live): what the
PagedAttention paper calls internal fragmentation. Blocks reserved for tokens that have not come yet
are counted apart, because they are a promise and not a loss.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from common.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Occupancy:
    """One moment. `blocks_used` have an owner, `blocks_empty` of them hold nothing yet."""

    blocks_used: int
    blocks_empty: int
    tokens_live: int


def occupancy(sequences: Iterable[Sequence], blocks_used: int, block_tokens: int) -> Occupancy:
    """A block shared by several sequences counts once: only tails and reserves are per sequence."""
    held = filled = computed = 0
    for sequence in sequences:
        held += len(sequence.table)
        filled += -(-sequence.computed // block_tokens)
        computed += sequence.computed
    empty = held - filled
    tail_waste = filled * block_tokens - computed
    return Occupancy(blocks_used, empty, (blocks_used - empty) * block_tokens - tail_waste)


class OccupancyIntegral:
    """Token-seconds since the start; `now` in seconds, monotonic."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._current = Occupancy(0, 0, 0)
        self._since = 0.0
        self.allocated = 0.0
        """Token-seconds in blocks that hold something."""
        self.live = 0.0
        self.empty = 0.0
        """Token-seconds in blocks that hold nothing yet."""

    def observe(self, current: Occupancy, now: float) -> None:
        """`current` holds from `now` on."""
        elapsed = now - self._since
        filled = self._current.blocks_used - self._current.blocks_empty
        self.allocated += elapsed * filled * self._block_tokens
        self.empty += elapsed * self._current.blocks_empty * self._block_tokens
        self.live += elapsed * self._current.tokens_live
        self._current, self._since = current, now

    @property
    def current(self) -> Occupancy:
        """What was observed last."""
        return self._current

    @property
    def waste(self) -> float:
        return 1.0 - self.live / self.allocated if self.allocated else 0.0

    @property
    def reserved_share(self) -> float:
        """Share of all blocks with an owner, over time, that were reserved and still empty."""
        total = self.allocated + self.empty
        return self.empty / total if total else 0.0
