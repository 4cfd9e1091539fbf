"""The data plane's bytes: exact round trips, and nothing else gets through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.domain.errors import ProtocolError
from common.wire.data import (
    MAX_BLOCKS_AT_ONCE,
    BlockReply,
    BlockRequest,
    decode_reply,
    decode_request,
    encode_reply,
    encode_request,
)

U32 = st.integers(0, 2**32 - 1)
REQUEST = BlockRequest(5, 2**63, 737_280, (1, 70_000), (0, 2**31 - 1))


@given(
    U32,
    st.integers(0, 2**64 - 1),
    st.integers(1, 2**32 - 1),
    st.lists(st.tuples(U32, U32), min_size=1, max_size=20),
)
def test_a_request_comes_back_equal(
    number: int, epoch: int, length: int, rows: list[tuple[int, int]]
) -> None:
    slots, generations = zip(*rows, strict=True)
    request = BlockRequest(number, epoch, length, slots, generations)
    assert decode_request(encode_request(request)) == request


@given(U32, st.lists(st.booleans()))
def test_a_reply_comes_back_equal(number: int, found: list[bool]) -> None:
    reply = BlockReply(number, tuple(found))
    assert decode_reply(encode_reply(reply)) == reply


def test_the_bytes_stay_what_they_are() -> None:
    assert encode_request(BlockRequest(1, 2, 3, (4,), (5,))).hex() == (
        "54465231" "01000000" "0200000000000000" "03000000" "04000000" "05000000"
    )  # fmt: skip
    assert encode_reply(BlockReply(1, (True, False))).hex() == "54464231010000000100"


@given(st.binary(max_size=80))
def test_noise_is_a_protocol_error_or_a_request(data: bytes) -> None:
    for decode in (decode_request, decode_reply):
        try:
            decode(data)
        except ProtocolError:
            continue
        assert data[:4] in (b"TFR1", b"TFB1")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        encode_request(REQUEST)[:-1],
        encode_request(REQUEST)[:20],
        b"XXXX" + encode_request(REQUEST)[4:],
        encode_request(BlockRequest(1, 1, 0, (1,), (1,))),
        encode_request(BlockRequest(1, 1, 1, (1,) * 5000, (1,) * 5000)),
    ],
    ids=["empty", "cut", "no blocks", "magic", "no length", "too many"],
)
def test_a_broken_request_is_a_protocol_error(data: bytes) -> None:
    assert MAX_BLOCKS_AT_ONCE < 5000
    with pytest.raises(ProtocolError):
        decode_request(data)


@pytest.mark.parametrize("data", [b"TFB1", b"TFB1\0\0\0\0\2", b"TFR1\0\0\0\0\1"])
def test_a_broken_reply_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_reply(data)
