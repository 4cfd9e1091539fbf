"""Descriptor columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.domain.block import Descriptor
from common.domain.errors import ProtocolError
from common.wire.columns import pack_i32
from common.wire.descriptors import pack_descriptors, unpack_descriptors

POSITION = st.integers(0, 2**31 - 1)
BLOCK = st.builds(Descriptor, POSITION, POSITION, st.integers(0, 2**32 - 1))


@given(st.lists(BLOCK, max_size=20))
def test_descriptors_come_back_equal(blocks: list[Descriptor]) -> None:
    columns = pack_descriptors(blocks)
    assert all(len(column) == 4 * len(blocks) for column in columns)
    assert unpack_descriptors(*columns) == blocks


def test_a_crc_travels_as_its_signed_image() -> None:
    assert pack_descriptors([Descriptor(1, 2, 0xFFFFFFFF)]).crcs == pack_i32([-1])


@pytest.mark.parametrize(
    ("slots", "generations", "crcs"),
    [([1], [1, 2], [1]), ([1, 2], [1, 2], [1]), ([-1], [1], [1]), ([1], [-1], [1])],
)
def test_columns_that_make_no_descriptors_are_a_protocol_error(
    slots: list[int], generations: list[int], crcs: list[int]
) -> None:
    with pytest.raises(ProtocolError):
        unpack_descriptors(pack_i32(slots), pack_i32(generations), pack_i32(crcs))
