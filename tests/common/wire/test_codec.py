"""What travels is exactly what was declared; nothing else gets in."""

import dataclasses
import enum
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.domain.errors import ProtocolError
from common.domain.ids import AttemptKey, RequestId
from common.domain.peer import Role
from common.wire.codec import MAX_ARRAY, MAX_MESSAGE_BYTES, Codec, coder_for
from common.wire.messages import TAGS, Cancel, Message, Pulse, Renew, Submit, Welcome
from tests.support.wire_values import required_fields, sample, strategy

CODEC = Codec(TAGS)
GOLDEN: dict[str, str] = json.loads((Path(__file__).parent / "golden.json").read_text())
CLASSES = [pytest.param(tag, cls, id=cls.__name__) for tag, cls in TAGS.items()]
ARRAY_32, BIN_32, STR_32, MAP_32, EXT_32 = b"\xdd", b"\xc6", b"\xdb", b"\xdf", b"\xc9"


def fields_of(cls: type) -> list[object]:
    """Tag and fields of a sample, as plain msgpack values."""
    values: list[object] = msgpack.unpackb(CODEC.encode(sample(cls)))
    return values


def pack(values: object) -> bytes:
    data: bytes = msgpack.packb(values)
    return data


def test_every_message_of_the_union_has_a_tag() -> None:
    assert set(get_args(Message)) == set(TAGS.values())


@pytest.mark.parametrize(("tag", "cls"), CLASSES)
def test_golden_bytes(tag: int, cls: type) -> None:
    """A moved or retyped field, or a reused tag, breaks running clusters."""
    data = CODEC.encode(sample(cls))
    assert data.hex() == GOLDEN.get(f"{tag} {cls.__name__}")
    assert CODEC.decode(data) == sample(cls)


def test_golden_bytes_stand_for_every_tag_and_no_other() -> None:
    assert set(GOLDEN) == {f"{tag} {cls.__name__}" for tag, cls in TAGS.items()}


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list(TAGS.values())).flatmap(strategy))
def test_any_message_comes_back_equal(message: object) -> None:
    decoded = CODEC.decode(CODEC.encode(message))
    assert decoded == message
    assert type(decoded) is type(message)
    assert CODEC.encode(decoded) == CODEC.encode(message), "also by type"


@pytest.mark.parametrize(("tag", "cls"), CLASSES)
def test_a_sender_that_knows_fewer_fields_gets_our_defaults(tag: int, cls: type) -> None:
    values = fields_of(cls)
    required = required_fields(cls)
    for count in range(required, len(values) - 1):
        decoded = CODEC.decode(pack(values[: 1 + count]))
        for index, field in enumerate(dataclasses.fields(cls)):
            got = getattr(decoded, field.name)
            default = getattr(cls(*[None] * required), field.name)
            assert got == (default if index >= count else getattr(sample(cls), field.name))
    if required:
        with pytest.raises(ProtocolError, match=f"at least {required} fields"):
            CODEC.decode(pack(values[:required]))


@pytest.mark.parametrize(("tag", "cls"), CLASSES)
def test_fields_of_a_newer_sender_are_ignored(tag: int, cls: type) -> None:
    newer = pack([*fields_of(cls), "new", [1, [2]], None])
    assert CODEC.decode(newer) == sample(cls)


@pytest.mark.parametrize(("tag", "cls"), CLASSES)
def test_a_field_of_another_type_is_refused(tag: int, cls: type) -> None:
    values = fields_of(cls)
    for index in range(1, len(values)):
        # No field is an array of arrays of arrays of nothing.
        spoiled = [*values[:index], [[[[]]]], *values[index + 1 :]]
        with pytest.raises(ProtocolError):
            CODEC.decode(pack(spoiled))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, True),
        (int, 1.0),
        (int, "1"),
        (bool, 1),
        (float, True),
        (float, "1.0"),
        (str, b"x"),
        (bytes, "x"),
        (Role, 99),
        (Role, [1]),
        (Role, "DECODE"),
        (tuple[int, ...], 3),
        (tuple[int, ...], [1, "2"]),
        (tuple[int, str], [1]),
        (tuple[int, str], [1, "a", 2]),
        (AttemptKey, ["r"]),
        (AttemptKey, "r"),
        (AttemptKey | None, 0),
    ],
)
def test_near_misses_are_refused(annotation: object, value: object) -> None:
    _, decode = coder_for(annotation)
    with pytest.raises(ProtocolError):
        decode(value)


def test_an_integer_may_stand_for_a_float_and_none_for_an_optional() -> None:
    decoded = coder_for(float)[1](3)
    assert decoded == 3.0
    assert type(decoded) is float
    assert coder_for(AttemptKey | None)[1](None) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        pack(None),
        pack(13),
        pack([]),
        pack({}),
        pack({"tag": 13}),
        pack(["13"]),
        pack([True, [["r", 1]]]),
        pack([13.0, [["r", 1]]]),
        pack([9_999, 1]),
        pack([-1]),
        pack([[13]]),
        CODEC.encode(sample(Cancel))[:-1],
        CODEC.encode(sample(Cancel)) + b"\x00",
        pack([13, [b"\xff\xfe", 1]]),
        b"\x92\x0d\x92\xa1\xff\x01",
        b"\x91" * 100_000,
        (ARRAY_32 + b"\x00\x01\x00\x00") * 1_000,
        ARRAY_32 + b"\xff\xff\xff\xff",
        b"\x92\x0d" + ARRAY_32 + b"\x7f\xff\xff\xff",
        b"\x92\x0d" + BIN_32 + b"\xff\xff\xff\xff",
        b"\x92\x0d" + STR_32 + b"\x7f\xff\xff\xff",
        b"\x92\x0d" + MAP_32 + b"\x7f\xff\xff\xff",
        b"\x92\x0d" + EXT_32 + b"\x7f\xff\xff\xff\x05",
        b"\x92\x0d\xd6\xff\x00\x00\x00\x00",
        b"\x92\x0d\xc7\x00\x05",
        b"\x92\x0d\x81\x01\x02",
    ],
)
def test_what_is_no_message_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        CODEC.decode(data)


def test_a_forged_length_allocates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arrays that a frame claims are at most as long as the frame."""
    seen: list[int] = []
    unpackb = msgpack.unpackb

    def spy(data: bytes, **limits: int) -> object:
        seen.append(limits["max_array_len"])
        return unpackb(data, **limits)

    monkeypatch.setattr(msgpack, "unpackb", spy)
    with pytest.raises(ProtocolError):
        CODEC.decode((ARRAY_32 + b"\x00\x01\x00\x00") * 100)
    with pytest.raises(ProtocolError):
        CODEC.decode(bytes(MAX_ARRAY + 1))
    assert seen == [500, MAX_ARRAY]


def test_too_large_messages_are_neither_made_nor_read() -> None:
    large = sample(Submit)
    large = dataclasses.replace(large, prompt=bytes(MAX_MESSAGE_BYTES))
    with pytest.raises(ProtocolError, match="too large"):
        CODEC.encode(large)
    with pytest.raises(ProtocolError, match="too large"):
        CODEC.decode(pack([13, bytes(MAX_MESSAGE_BYTES)]))
    fits = dataclasses.replace(large, prompt=bytes(MAX_MESSAGE_BYTES - 1_000))
    assert CODEC.decode(CODEC.encode(fits)) == fits


def test_a_view_of_a_buffer_is_read_like_bytes() -> None:
    assert CODEC.decode(memoryview(CODEC.encode(sample(Pulse)))) == sample(Pulse)


def _mutated(rng: random.Random, data: bytes) -> bytes:
    frame = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(frame) + 1)
        match rng.randrange(4):
            case 0:
                frame[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                del frame[place : place + rng.randint(1, 8)]
            case 2:
                frame[place:place] = rng.randbytes(rng.randint(1, 8))
            case _:
                other = rng.randrange(len(frame) + 1)
                frame[place:place] = frame[other : other + rng.randint(1, 16)]
    return bytes(frame)


def test_mutated_frames_are_messages_or_protocol_errors() -> None:
    rng = random.Random(20_000)
    frames = [CODEC.encode(sample(cls)) for cls in TAGS.values()]
    refused = 0
    for index in range(20_000):
        try:
            decoded = CODEC.decode(_mutated(rng, frames[index % len(frames)]))
        except ProtocolError:
            refused += 1
        else:
            CODEC.encode(decoded)
    assert 10_000 < refused < 20_000, "some mutations still make sense, most do not"


@dataclass(frozen=True)
class WithSet:
    values: set[int]


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True)
class Painted:
    colour: Colour


def test_a_type_that_has_no_place_on_the_wire_is_found_when_the_codec_is_built() -> None:
    with pytest.raises(TypeError, match="no place on the wire"):
        Codec({1: WithSet})
    with pytest.raises(TypeError, match="two tags"):
        Codec({1: Welcome, 2: Welcome})


def test_enumerations_travel_by_value() -> None:
    codec = Codec({1: Painted})
    assert codec.encode(Painted(Colour.RED)) == pack([1, "red"])
    assert codec.decode(pack([1, "red"])).colour is Colour.RED


def test_sequences_become_tuples() -> None:
    keys = (AttemptKey(RequestId("a"), 1), AttemptKey(RequestId("b"), 2))
    assert CODEC.decode(CODEC.encode(Renew(keys))).keys == keys
