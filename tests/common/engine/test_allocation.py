"""The arithmetic of blocks."""

from common.engine.allocation import blocks_for, cacheable_names
from common.kv.hashing import block_names
from tests.support.sequences import BLOCK_TOKENS, waiting


def test_at_least_one_token_is_left_to_compute() -> None:
    for length in range(1, 70):
        sequence = waiting("a", length)
        names = cacheable_names(sequence, length, BLOCK_TOKENS)
        assert len(names) * BLOCK_TOKENS < length
        assert (len(names) + 1) * BLOCK_TOKENS >= length
        assert names == block_names(sequence.units, BLOCK_TOKENS)[: len(names)]


def test_blocks_are_rounded_up() -> None:
    assert [blocks_for(tokens, 16) for tokens in (0, 1, 16, 17, 32)] == [0, 1, 1, 2, 2]
