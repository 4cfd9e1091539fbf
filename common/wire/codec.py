"""Messages to bytes and back: frozen dataclasses as positional msgpack arrays.

One checked decoder is built per class from its annotations, so a peer's bytes either become exactly
the declared types or raise ProtocolError; nothing else can come out. Fields are append-only: a
sender with fewer fields than we know gets our defaults, a newer sender's extra fields are ignored.
msgpack's own limits (lengths from the size of the input, arrays to MAX_ARRAY, its fixed nesting)
keep a forged length from allocating anything. Long columns travel packed in one bytes field:
wire/columns.py.
"""

import dataclasses
import enum
import types
import typing
from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints

import msgpack

from common.domain.errors import ProtocolError

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_ARRAY = 65_536

Encode = Callable[[Any], Any]
Decode = Callable[[Any], Any]


def _reject(expected: str, value: object) -> ProtocolError:
    return ProtocolError(f"expected {expected}, got {type(value).__name__}")


def _scalar(kind: type) -> Decode:
    def decode(value: Any) -> Any:
        # bool is an int to Python but not to us; an int may stand for a float on the wire.
        if type(value) is kind:
            return value
        if kind is float and type(value) is int:
            return float(value)
        raise _reject(kind.__name__, value)

    return decode


def _sequence(item: tuple[Encode, Decode]) -> tuple[Encode, Decode]:
    encode_item, decode_item = item

    def decode(value: Any) -> Any:
        if type(value) is not list:
            raise _reject("array", value)
        return tuple(decode_item(entry) for entry in value)

    return (lambda value: [encode_item(entry) for entry in value]), decode


def _fixed(items: list[tuple[Encode, Decode]]) -> tuple[Encode, Decode]:
    def decode(value: Any) -> Any:
        if type(value) is not list or len(value) != len(items):
            raise _reject(f"array of {len(items)}", value)
        return tuple(item[1](entry) for item, entry in zip(items, value, strict=True))

    def encode(value: Any) -> Any:
        return [item[0](entry) for item, entry in zip(items, value, strict=True)]

    return encode, decode


def _optional(item: tuple[Encode, Decode]) -> tuple[Encode, Decode]:
    encode_item, decode_item = item
    return (
        lambda value: None if value is None else encode_item(value),
        lambda value: None if value is None else decode_item(value),
    )


def _enumeration(kind: type[enum.Enum]) -> tuple[Encode, Decode]:
    def decode(value: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            raise _reject(kind.__name__, value) from None

    return (lambda value: value.value), decode


def _literal(allowed: tuple[Any, ...]) -> tuple[Encode, Decode]:
    def decode(value: Any) -> Any:
        if value in allowed and type(value) is type(allowed[0]):
            return value
        raise ProtocolError(f"expected one of {allowed}, got {value!r:.40}")

    return (lambda value: value), decode


def _record(cls: type) -> tuple[Encode, Decode]:
    hints = get_type_hints(cls)
    fields = dataclasses.fields(cls)
    parts = [(field.name, *coder_for(hints[field.name])) for field in fields]
    required = sum(
        field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        for field in fields
    )

    def encode(value: Any) -> Any:
        return [encode_part(getattr(value, name)) for name, encode_part, _ in parts]

    def decode(value: Any) -> Any:
        if type(value) is not list or len(value) < required:
            raise _reject(f"{cls.__name__} with at least {required} fields", value)
        # zip stops at the shorter side: missing fields keep defaults, unknown ones are ignored.
        return cls(*(part[2](entry) for part, entry in zip(parts, value, strict=False)))

    return encode, decode


def coder_for(annotation: Any) -> tuple[Encode, Decode]:
    """Encoder and checked decoder of one annotation. Raises TypeError on what we do not send."""
    if isinstance(annotation, typing.NewType):
        return coder_for(annotation.__supertype__)
    if annotation in (int, float, str, bytes, bool):
        return (lambda value: value), _scalar(annotation)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return _sequence(coder_for(args[0]))
        return _fixed([coder_for(arg) for arg in args])
    if origin is typing.Literal:
        return _literal(args)
    if origin in (typing.Union, types.UnionType) and len(args) == 2 and args[1] is type(None):
        return _optional(coder_for(args[0]))
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _enumeration(annotation)
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return _record(annotation)
    raise TypeError(f"{annotation!r} has no place on the wire")


class Codec:
    """Encodes every class of one tag table; tags are never reused."""

    def __init__(self, tags: dict[int, type]) -> None:
        self._encoders: dict[type, tuple[int, Encode]] = {}
        self._decoders: dict[int, Decode] = {}
        for tag, cls in tags.items():
            encode, decode = _record(cls)
            self._encoders[cls] = (tag, encode)
            self._decoders[tag] = decode
        if len(self._encoders) != len(tags):
            raise TypeError("one class stands under two tags")

    def encode(self, message: object) -> bytes:
        """Bytes of one message. Raises ProtocolError beyond MAX_MESSAGE_BYTES."""
        tag, encode = self._encoders[type(message)]
        data: bytes = msgpack.packb([tag, *encode(message)], use_bin_type=True)
        if len(data) > MAX_MESSAGE_BYTES:
            raise ProtocolError(f"{type(message).__name__} of {len(data)} bytes is too large")
        return data

    def decode(self, data: bytes | memoryview) -> Any:
        """The message in `data`. Raises ProtocolError on anything but a whole known message."""
        size = len(data)
        if size > MAX_MESSAGE_BYTES:
            raise ProtocolError(f"message of {size} bytes is too large")
        try:
            fields = msgpack.unpackb(
                data,
                raw=False,
                strict_map_key=True,
                max_str_len=size,
                max_bin_len=size,
                max_array_len=min(size, MAX_ARRAY),
                max_map_len=0,
                max_ext_len=0,
            )
        except (ValueError, msgpack.UnpackException, RecursionError) as error:
            raise ProtocolError(f"not a message: {error}") from None
        if type(fields) is not list or not fields or type(fields[0]) is not int:
            raise ProtocolError("not a tagged array")
        decode = self._decoders.get(fields[0])
        if decode is None:
            raise ProtocolError(f"unknown tag {fields[0]}")
        return decode(fields[1:])
