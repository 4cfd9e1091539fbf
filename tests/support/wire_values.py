"""Values of any class that may travel: one fixed sample, and hypothesis strategies."""

import dataclasses
import enum
import types
import typing
import zlib
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st


def sample(annotation: Any, name: str = "") -> Any:
    """The same value on every call, made from the field's name: swapped fields show."""
    number = zlib.crc32(name.encode()) % 1_000
    plain = {
        bool: number % 2 == 1,
        int: number,
        float: number + 0.5,
        str: name,
        bytes: name.encode() + b"\x00\xff",
    }
    if isinstance(annotation, typing.NewType):
        return sample(annotation.__supertype__, name)
    if annotation in plain:
        return plain[annotation]
    match _parts(annotation):
        case ("array", (item,)):
            return tuple(sample(item, f"{name}{index}") for index in range(2))
        case ("fixed", items):
            return tuple(sample(item, f"{name}{index}") for index, item in enumerate(items))
        case ("choice", choices):
            return choices[number % len(choices)]
        case ("optional", (item,)):
            return sample(item, name)
    hints = get_type_hints(annotation)
    return annotation(**{part: sample(hints[part], part) for part in hints})


def strategy(annotation: Any) -> st.SearchStrategy[Any]:
    plain: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(-(2**63), 2**64 - 1),
        float: st.floats(allow_nan=False),
        str: st.text(max_size=20),
        bytes: st.binary(max_size=20),
    }
    if isinstance(annotation, typing.NewType):
        return strategy(annotation.__supertype__)
    if annotation in plain:
        return plain[annotation]
    match _parts(annotation):
        case ("array", (item,)):
            return st.lists(strategy(item), max_size=3).map(tuple)
        case ("fixed", items):
            return st.tuples(*map(strategy, items))
        case ("choice", choices):
            return st.sampled_from(choices)
        case ("optional", (item,)):
            return st.none() | strategy(item)
    hints = get_type_hints(annotation)
    return st.builds(annotation, **{part: strategy(hint) for part, hint in hints.items()})


def _parts(annotation: Any) -> tuple[str, tuple[Any, ...]] | None:
    """Of anything but a scalar or a dataclass."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is tuple and args[-1] is Ellipsis:
        return "array", args[:1]
    if origin is tuple:
        return "fixed", args
    if origin is typing.Literal:
        return "choice", args
    if origin in (typing.Union, types.UnionType):
        return "optional", args[:1]
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return "choice", tuple(annotation)
    return None


def required_fields(cls: type) -> int:
    return sum(
        field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        for field in dataclasses.fields(cls)
    )
