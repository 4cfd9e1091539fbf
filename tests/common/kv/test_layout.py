"""Where a token lies in a block's bytes."""

import numpy as np
import pytest

from common.domain.block import LayoutTag
from common.kv.layout import block_array, clear_tail

LAYOUT = LayoutTag("float16", 16, layers=3, head_start=1, head_stop=3, head_dim=4)


def block(layout: LayoutTag = LAYOUT, spare: int = 0) -> bytearray:
    rng = np.random.default_rng(5)
    return bytearray(rng.integers(1, 256, layout.block_bytes + spare, dtype=np.uint8).tobytes())


def test_the_view_addresses_the_canonical_arrangement() -> None:
    data = block()
    view = block_array(LAYOUT, memoryview(data))
    assert view.shape == (3, 2, 2, 16, 8)
    layer, which, head, token = 2, 1, 0, 5
    start = (((layer * 2 + which) * 2 + head) * 16 + token) * 8
    assert view[layer, which, head, token].tobytes() == bytes(data[start : start + 8])
    view[layer, which, head, token] = 0
    assert data[start : start + 8] == bytes(8), "a view, not a copy"


@pytest.mark.parametrize("live", [0, 1, 7, 15, 16])
def test_a_tail_is_zero_past_its_live_tokens_and_untouched_before(live: int) -> None:
    data = block()
    before = block_array(LAYOUT, memoryview(bytes(data)))
    clear_tail(LAYOUT, memoryview(data), live)
    after = block_array(LAYOUT, memoryview(data))
    assert np.array_equal(after[:, :, :, :live], before[:, :, :, :live])
    assert not after[:, :, :, live:].any()


def test_what_follows_the_block_in_its_slot_is_left_alone() -> None:
    data = block(spare=100)
    clear_tail(LAYOUT, memoryview(data), 3)
    assert data[LAYOUT.block_bytes :] == block(spare=100)[LAYOUT.block_bytes :]
