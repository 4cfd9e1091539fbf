"""Who sends in which life, for which life."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.domain.errors import ProtocolError
from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.wire.envelope import open_envelope, parse_routing_id, routing_id, seal

LIVES = st.integers(0, 2**64 - 1).map(Incarnation)
NAMES = st.from_regex(r"[a-z]{1,8}-[0-9]{1,3}", fullmatch=True).map(ProcessName)


@given(LIVES, LIVES)
def test_an_envelope_names_both_lives_in_order(sender: Incarnation, receiver: Incarnation) -> None:
    assert open_envelope(seal(sender, receiver)) == (sender, receiver)


def test_the_envelopes_bytes_are_fixed() -> None:
    sealed = seal(Incarnation(1), Incarnation(0x0200_0000_0000_0000))
    assert sealed.hex() == "01000000000000000000000000000002"


@pytest.mark.parametrize("frame", [b"", bytes(15), bytes(17)])
def test_a_broken_envelope_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError, match="envelope"):
        open_envelope(frame)


@given(NAMES, LIVES, st.sampled_from(["", "pulse-ab12", "00ff"]))
def test_an_identity_tells_the_process_whatever_the_lane(
    name: ProcessName, life: Incarnation, lane: str
) -> None:
    process = ProcessId(name, life)
    raw = routing_id(process, lane)
    assert parse_routing_id(raw) == process
    assert len(raw) <= 255, "the most that ZeroMQ takes"


def test_two_lanes_of_a_process_are_two_identities() -> None:
    me = ProcessId(ProcessName("decode-0"), Incarnation(7))
    assert routing_id(me, "a") != routing_id(me, "b")


@pytest.mark.parametrize(
    "raw", [b"", b"decode-0", b"decode-0/7", b"decode-0/x/lane", b"a/1/b/c", b"\xff/1/b", b"a//b"]
)
def test_an_identity_of_another_form_is_refused(raw: bytes) -> None:
    with pytest.raises(ProtocolError, match="identity"):
        parse_routing_id(raw)
