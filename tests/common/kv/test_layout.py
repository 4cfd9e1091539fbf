"""Where a token lies in a block's bytes."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.domain.block import DTYPE_BYTES, Arrangement, Dtype, LayoutTag
from common.kv.layout import clear_tail, from_canonical, halves, to_canonical

CANONICAL = LayoutTag("float16", 16, layers=3, head_start=1, head_stop=3, head_dim=4)
TRANSPOSED = LayoutTag("bfloat16", 16, 3, 1, 3, 4, "LKHTD-VT")
TOKEN = 5
PLACE = (2, 1, TOKEN)
"""Layer, head, token."""

layouts = st.builds(
    LayoutTag,
    dtype=st.sampled_from(get_args(Dtype)),
    block_tokens=st.sampled_from([16, 32, 64]),
    layers=st.integers(1, 3),
    head_start=st.just(2),
    head_stop=st.integers(3, 5),
    head_dim=st.integers(1, 9),
    arrangement=st.sampled_from(get_args(Arrangement)),
)


def block(layout: LayoutTag, spare: int = 0, seed: int = 5) -> bytearray:
    """No byte of it is zero."""
    rng = np.random.default_rng(seed)
    return bytearray(rng.integers(1, 256, layout.block_bytes + spare, dtype=np.uint8).tobytes())


@pytest.mark.parametrize("layout", [CANONICAL, TRANSPOSED], ids=lambda tag: tag.arrangement)
def test_a_key_lies_in_one_piece(layout: LayoutTag) -> None:
    data = block(layout)
    keys, _ = halves(layout, memoryview(data))
    assert keys.shape == (3, 2, 16, 4)
    start = (((2 * 2 + 0) * 2 + 1) * 16 + TOKEN) * 8
    assert keys[PLACE].tobytes() == bytes(data[start : start + 8])
    keys[PLACE] = 0
    assert data[start : start + 8] == bytes(8), "a view, not a copy"


def test_a_value_lies_in_one_piece_in_the_canonical_arrangement() -> None:
    data = block(CANONICAL)
    _, values = halves(CANONICAL, memoryview(data))
    start = (((2 * 2 + 1) * 2 + 1) * 16 + TOKEN) * 8
    assert values[PLACE].tobytes() == bytes(data[start : start + 8])
    values[PLACE] = 0
    assert data[start : start + 8] == bytes(8), "a view, not a copy"


def test_a_transposed_value_has_one_element_in_each_row_of_its_head() -> None:
    data = block(TRANSPOSED)
    _, values = halves(TRANSPOSED, memoryview(data))
    assert values.shape == (3, 2, 16, 4)
    head = ((2 * 2 + 1) * 2 + 1) * 16 * 8
    starts = [head + (dim * 16 + TOKEN) * 2 for dim in range(4)]
    assert values[PLACE].tobytes() == b"".join(data[at : at + 2] for at in starts)
    values[PLACE] = 0
    assert all(data[at : at + 2] == bytes(2) for at in starts), "a view, not a copy"


@settings(max_examples=60, deadline=None)
@given(layouts, st.integers(0, 64))
def test_a_tail_is_zero_past_its_live_tokens_and_untouched_before(
    layout: LayoutTag, drawn: int
) -> None:
    live = drawn % (layout.block_tokens + 1)
    data = block(layout)
    before = to_canonical(layout, memoryview(data))
    clear_tail(layout, memoryview(data), live)
    after = to_canonical(layout, memoryview(data))
    assert np.array_equal(after[:, :, :, :live], before[:, :, :, :live])
    assert not after[:, :, :, live:].any()
    dead = layout.block_bytes * (layout.block_tokens - live) // layout.block_tokens
    assert data.count(0) == dead, "exactly the dead tokens of both halves"


@pytest.mark.parametrize("layout", [CANONICAL, TRANSPOSED], ids=lambda tag: tag.arrangement)
def test_what_follows_the_block_in_its_slot_is_left_alone(layout: LayoutTag) -> None:
    data = block(layout, spare=100)
    clear_tail(layout, memoryview(data), 3)
    assert data[layout.block_bytes :] == block(layout, spare=100)[layout.block_bytes :]


@settings(max_examples=60, deadline=None)
@given(layouts, st.integers(0, 99))
def test_every_layout_comes_back_from_the_canonical_one(layout: LayoutTag, seed: int) -> None:
    data = block(layout, seed=seed)
    canonical = to_canonical(layout, memoryview(bytes(data)))
    assert canonical.shape == layout.shape
    assert canonical.itemsize == DTYPE_BYTES[layout.dtype]
    assert from_canonical(layout, canonical) == data
    assert to_canonical(layout, memoryview(from_canonical(layout, canonical))).tobytes() == (
        canonical.tobytes()
    )


def test_the_canonical_arrangement_is_the_bytes_themselves() -> None:
    data = block(CANONICAL)
    assert to_canonical(CANONICAL, memoryview(data)).tobytes() == data


def test_the_two_arrangements_are_told_apart_by_the_order_of_their_values_alone() -> None:
    canonical = to_canonical(CANONICAL, memoryview(block(CANONICAL)))
    there = from_canonical(TRANSPOSED, canonical)
    plain = canonical.reshape(3, 2, 2, 16, 4)
    expected = b"".join(
        plain[layer, 0].tobytes() + plain[layer, 1].swapaxes(1, 2).tobytes() for layer in range(3)
    )
    assert there == expected


def test_the_canonical_array_is_a_copy() -> None:
    data = block(TRANSPOSED)
    to_canonical(TRANSPOSED, memoryview(data))[:] = 0
    assert data == block(TRANSPOSED)


def test_an_array_of_another_shape_or_width_is_refused() -> None:
    canonical = to_canonical(CANONICAL, memoryview(block(CANONICAL)))
    for other in (canonical[:, :, :, :8], canonical.astype(np.uint32)):
        with pytest.raises(ValueError, match="no block of"):
            from_canonical(CANONICAL, other)
