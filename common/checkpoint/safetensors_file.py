"""A safetensors file mapped into memory.

The format is eight bytes of header length, a JSON header, then the tensors' bytes end to end. We
read it ourselves because workers must share one copy of the pages, and because numpy has no
bfloat16: mapping and widening are both a view away from the raw bytes. A header is checked against
the size of the file before any tensor is touched.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from common.checkpoint.errors import CheckpointError, naming

Float32Array = npt.NDArray[np.float32]

_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 100_000_000
_STORED_AS: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "F64": np.dtype("<f8"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    dtype: str
    shape: tuple[int, ...]
    start: int
    """Offset from the beginning of the file."""
    end: int


class SafetensorsFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        with naming(path):
            self.entries, self.metadata = _read_header(path)
        self._bytes = np.memmap(path, dtype=np.uint8, mode="r")

    def tensor(self, name: str) -> Float32Array:
        """Float32 of any stored width; a float32 tensor is a read-only view of the file's pages."""
        entry = self.entries[name]
        if entry.dtype not in _STORED_AS:
            raise CheckpointError(
                f"{self.path}: tensor {name} is {entry.dtype}, not a float we read"
            )
        stored = np.frombuffer(self.raw(name), dtype=_STORED_AS[entry.dtype]).reshape(entry.shape)
        match entry.dtype:
            case "F32":
                return np.require(cast(Float32Array, stored), requirements="A")
            case "BF16":
                return widen_bfloat16(stored)
            case _:
                return cast(Float32Array, stored.astype(np.float32))

    def raw(self, name: str) -> npt.NDArray[np.uint8]:
        """The stored bytes [bytes] of any type: a read-only view of the file's pages."""
        entry = self.entries[name]
        return self._bytes[entry.start : entry.end].view(np.ndarray)


def widen_bfloat16(bits: npt.NDArray[np.uint16]) -> Float32Array:
    """bfloat16 is the upper half of a float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _read_header(path: Path) -> tuple[dict[str, Entry], dict[str, str]]:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if not 2 <= length <= min(_MAX_HEADER_BYTES, size - _LENGTH_BYTES):
            raise CheckpointError("not a safetensors file, or cut short")
        text = file.read(length)
    try:
        header = json.loads(text)
    except ValueError as error:
        raise CheckpointError("the safetensors header is not JSON") from error
    if not isinstance(header, dict):
        raise CheckpointError("the safetensors header is not an object")
    metadata = header.pop("__metadata__", None) or {}
    origin = _LENGTH_BYTES + length
    entries = {name: _entry(name, value, origin, size) for name, value in header.items()}
    return entries, metadata


def _entry(name: str, value: Mapping[str, object], origin: int, size: int) -> Entry:
    try:
        dtype, shape = str(value["dtype"]), tuple(map(int, cast("list[int]", value["shape"])))
        start, end = map(int, cast("list[int]", value["data_offsets"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the header entry of {name} makes no sense") from error
    if not 0 <= start <= end <= size - origin:
        raise CheckpointError(f"tensor {name} ends outside the file: it was cut short")
    if min(shape, default=0) < 0 or (
        dtype in _STORED_AS and math.prod(shape) * _STORED_AS[dtype].itemsize != end - start
    ):
        raise CheckpointError(f"tensor {name} of shape {shape} does not fill its bytes")
    return Entry(dtype, shape, origin + start, origin + end)
