"""How much of the KV pool holds something, integrated over time.

KV waste = 1 - live slots / allocated slots (in token slots, over the time requests live): what the
PagedAttention paper calls internal fragmentation. Blocks reserved for tokens that have not come yet
are counted apart, because they are a promise and not a loss.
"""

from collections.abc import Iterable
from collections.abc import Sequence as Sequences
from dataclasses import dataclass

from common.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Occupancy:
    """One moment. `blocks_used` have an owner, `blocks_empty` of them hold nothing yet."""

    blocks_used: int
    blocks_empty: int
    tokens_live: int


def occupancy(
    sequences: Sequences[Sequence],
    blocks_used: int,
    block_tokens: int,
    padding: Iterable[Sequence] = (),
) -> Occupancy:
    """A block shared by several sequences counts once: only tails and reserves are per sequence.
    `padding` has ended: blocks that only padding owns hold nothing that lives."""
    held = filled = computed = 0
    for sequence in sequences:
        held += len(sequence.table)
        filled += -(-sequence.computed // block_tokens)
        computed += sequence.computed
    empty = held - filled
    tail_waste = filled * block_tokens - computed
    filled_blocks = blocks_used - empty - _dead_blocks(sequences, padding)
    return Occupancy(blocks_used, empty, filled_blocks * block_tokens - tail_waste)


def _dead_blocks(sequences: Iterable[Sequence], padding: Iterable[Sequence]) -> int:
    dead = {slot for sequence in padding for slot in sequence.table}
    if dead:
        dead.difference_update(*(sequence.table for sequence in sequences))
    return len(dead)


class OccupancyIntegral:
    """Token-seconds since the start; `now` in seconds, monotonic."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._current = Occupancy(0, 0, 0)
        self._since = 0.0
        self.live = 0.0
        self.tail = 0.0
        """Token-seconds of what holds nothing, in blocks that hold something."""
        self.empty = 0.0
        """Token-seconds in blocks that hold nothing yet."""

    def observe(self, current: Occupancy, now: float) -> None:
        """`current` holds from `now` on."""
        elapsed = now - self._since
        filled = self._current.blocks_used - self._current.blocks_empty
        live = self._current.tokens_live
        self.tail += elapsed * (filled * self._block_tokens - live)
        self.empty += elapsed * self._current.blocks_empty * self._block_tokens
        self.live += elapsed * live
        self._current, self._since = current, now

    @property
    def current(self) -> Occupancy:
        """What was observed last."""
        return self._current

    @property
    def waste(self) -> float:
        allocated = self.live + self.tail
        return self.tail / allocated if allocated else 0.0

    @property
    def reserved_share(self) -> float:
        """Share of all blocks with an owner, over time, that were reserved and still empty."""
        total = self.live + self.tail + self.empty
        return self.empty / total if total else 0.0
