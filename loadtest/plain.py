"""Anything a run holds as plain JSON: dataclasses, models, enums, numbers of numpy.

A dataclass gives its fields and what it computes from them, its public properties, so that a
reader of the file need not. What is no number in JSON (NaN, the infinities) becomes null: a reader
in another language must not stumble, and a missing figure is what it says.
"""

import dataclasses
import inspect
import math
from collections.abc import Mapping
from enum import Enum
from functools import cache

import numpy as np
from pydantic import BaseModel, JsonValue


def plain(value: object) -> JsonValue:
    """Raises TypeError on what has no form in JSON."""
    match value:
        case Enum():
            return plain(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case np.generic():
            return plain(value.item())
        case BaseModel():
            return {key: plain(one) for key, one in value}
        case Mapping():
            return {str(plain(key)): plain(one) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(one) for one in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {name: plain(getattr(value, name)) for name in _names(type(value))}
        case _:
            raise TypeError(f"{type(value).__name__} has no form in JSON")


@cache
def _names(kind: type) -> tuple[str, ...]:
    assert dataclasses.is_dataclass(kind)
    columns = [column.name for column in dataclasses.fields(kind)]
    computed = [
        name
        for name, member in inspect.getmembers(kind)
        if isinstance(member, property) and not name.startswith("_")
    ]
    return (*columns, *computed)
