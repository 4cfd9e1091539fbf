"""What an allocator of KV blocks decides, and the arithmetic all of them share.

An allocator says how many blocks a sequence takes when it is admitted, which of them, and what its
choices share. Blocks beyond those are taken one by one, and what a sequence holds is given back to
the cache when it leaves, whoever allocated. Pure.
"""

from typing import Protocol

from common.domain.ids import UnitHash
from common.engine.prefix_cache import PrefixCache
from common.engine.sequence import Sequence
from common.kv.hashing import block_names


class Allocator(Protocol):
    """Where sequences get their blocks from. Changes nothing of a sequence that it refuses."""

    @property
    def cache(self) -> PrefixCache: ...

    @property
    def shares(self) -> bool:
        """Whether a block may have several owners, so that filled ones get names."""

    def admits(self, waiting: Sequence, running: int) -> bool:
        """Whether its prompt may have blocks beside so many sequences that run."""

    def reserve(self, sequence: Sequence, tokens: int) -> bool:
        """Give it a table in which at least `tokens` fit, and what of them is computed already."""

    def fork(self, leader: Sequence, twin: Sequence) -> list[tuple[int, int]] | None:
        """Give the twin a table for all that the leader has computed. Returns the blocks to be
        copied (source, target), or None if there is no room."""


def blocks_for(tokens: int, block_tokens: int) -> int:
    return -(-tokens // block_tokens)


def cacheable_names(sequence: Sequence, tokens: int, block_tokens: int) -> list[UnitHash]:
    """Names of the leading blocks that may come from a cache: at least one token stays to be
    computed, so that there are logits to draw from."""
    return block_names(sequence.units, block_tokens)[: (tokens - 1) // block_tokens]
