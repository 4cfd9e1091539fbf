"""Typed look-ups in the keys of a model file, where a bad value names its key.

JSON null and a missing key are the same thing to the files we read, so they are here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from common.checkpoint.errors import CheckpointError

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Metadata:
    values: Mapping[str, object]

    def has(self, key: str) -> bool:
        return self.values.get(key) is not None

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong(key, "an integer", value)
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(key, "a number", value)
        return float(value)

    def flag(self, key: str, *, default: bool) -> bool:
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise _wrong(key, "true or false", value)
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self._value(key, default)
        if not isinstance(value, str):
            raise _wrong(key, "text", value)
        return value

    def optional_text(self, key: str) -> str | None:
        return self.text(key) if self.has(key) else None

    def optional_integer(self, key: str) -> int | None:
        return self.integer(key) if self.has(key) else None

    def texts(self, key: str) -> list[str]:
        items = [item for item in self._list(key) if isinstance(item, str)]
        return self._whole(key, "a list of texts", items)

    def integers(self, key: str) -> list[int]:
        """A single integer counts as a list of one."""
        if isinstance(self.values.get(key), int):
            return [self.integer(key)]
        items = [item for item in self._list(key) if isinstance(item, int)]
        return self._whole(key, "a list of integers", items)

    def section(self, key: str) -> "Metadata":
        value = self._value(key, None)
        if not isinstance(value, dict):
            raise _wrong(key, "an object", value)
        return Metadata({str(name): item for name, item in value.items()})

    def _list(self, key: str) -> list[object]:
        value = self._value(key, None)
        if not isinstance(value, list):
            raise _wrong(key, "a list", value)
        return value

    def _whole(self, key: str, expected: str, items: list[Item]) -> list[Item]:
        if len(items) != len(self._list(key)):
            raise _wrong(key, expected, self.values[key])
        return items

    def _value(self, key: str, default: object) -> object:
        value = self.values.get(key)
        if value is not None:
            return value
        if default is None:
            raise CheckpointError(f"key {key!r} is missing")
        return default


def _wrong(key: str, expected: str, value: object) -> CheckpointError:
    return CheckpointError(f"key {key!r} should be {expected}, is {str(value)[:80]!r}")
