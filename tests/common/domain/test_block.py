"""What a layout says about sizes, by hand for the model of the benchmarks."""

from dataclasses import replace

import pytest

from common.domain.block import DTYPE_BYTES, Dtype, LayoutTag


def smol(dtype: Dtype, block_tokens: int = 32) -> LayoutTag:
    """SmolLM2-135M: 30 layers, 3 KV heads of 64."""
    return LayoutTag(dtype, block_tokens, 30, 0, 3, 64)


def test_bytes_of_the_default_model() -> None:
    assert smol("bfloat16").token_bytes == 23_040
    assert smol("bfloat16").block_bytes == 737_280
    assert smol("float32").token_bytes == 46_080
    assert smol("float32", 16).block_bytes == smol("bfloat16", 32).block_bytes


@pytest.mark.parametrize("dtype", list(DTYPE_BYTES))
@pytest.mark.parametrize("block_tokens", [16, 32, 64])
def test_the_shape_has_as_many_values_as_the_bytes(dtype: Dtype, block_tokens: int) -> None:
    layout = LayoutTag(dtype, block_tokens, layers=5, head_start=2, head_stop=6, head_dim=24)
    layers, two, heads, tokens, dim = layout.shape
    assert (layers, two, heads, tokens, dim) == (5, 2, 4, block_tokens, 24)
    values = layers * two * heads * tokens * dim
    assert layout.block_bytes == values * DTYPE_BYTES[dtype]
    assert layout.token_bytes * block_tokens == layout.block_bytes


def test_a_head_range_takes_its_share_of_the_bytes() -> None:
    whole = LayoutTag("float16", 32, 4, 0, 8, 64)
    halves = [LayoutTag("float16", 32, 4, start, start + 4, 64) for start in (0, 4)]
    assert sum(half.block_bytes for half in halves) == whole.block_bytes
    assert halves[0] != halves[1], "blocks of two ranges are not interchangeable"


def test_an_arrangement_changes_what_blocks_fit_and_not_their_size() -> None:
    plain = smol("bfloat16")
    transposed = replace(plain, arrangement="LKHTD-VT")
    assert transposed.block_bytes == plain.block_bytes
    assert transposed.shape == plain.shape
    assert transposed != plain
