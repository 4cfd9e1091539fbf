"""Integer and hash columns: packed little-endian, checked by length."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.domain.errors import ProtocolError
from common.domain.ids import UnitHash
from common.wire.columns import HASH_BYTES, pack_hashes, pack_i32, unpack_hashes, unpack_i32

INT32 = st.integers(-(2**31), 2**31 - 1)


@given(st.lists(INT32, max_size=50))
def test_integers_come_back_from_any_iterable(values: list[int]) -> None:
    packed = pack_i32(values)
    assert len(packed) == 4 * len(values)
    assert unpack_i32(packed).tolist() == values
    assert pack_i32(iter(values)) == pack_i32(np.array(values, dtype=np.int32)) == packed


def test_integers_are_little_endian_whatever_the_array_was() -> None:
    assert pack_i32([1, -2]) == b"\x01\0\0\0\xfe\xff\xff\xff"
    assert pack_i32(np.array([1, -2], dtype=">i4")) == pack_i32([1, -2])


def test_an_integer_that_does_not_fit_is_an_error_of_the_sender() -> None:
    with pytest.raises(OverflowError):
        pack_i32([2**31])


def test_a_column_is_a_view_that_cannot_be_written() -> None:
    column = unpack_i32(pack_i32([1, 2]))
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 5


@pytest.mark.parametrize("length", [1, 2, 3, 5, 4_095])
def test_a_broken_integer_column_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError, match="int32 column"):
        unpack_i32(bytes(length))


@given(st.lists(st.binary(min_size=HASH_BYTES, max_size=HASH_BYTES), max_size=8))
def test_hashes_come_back(raw: list[bytes]) -> None:
    hashes = [UnitHash(value) for value in raw]
    assert unpack_hashes(pack_hashes(hashes)) == hashes


@pytest.mark.parametrize("length", [1, HASH_BYTES - 1, HASH_BYTES + 1])
def test_a_broken_hash_column_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError, match="hash column"):
        unpack_hashes(bytes(length))
