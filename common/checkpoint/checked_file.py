"""A safetensors file with a checksum over all of it, for files of our own in the cache.

The checksum (crc32c) covers the tensors, then the header with the checksum's own digits as zeros.
A file that was cut short, or has a flipped bit anywhere, is found in one pass over it, before its
header is believed. Tensors are written one by one, and the header, which follows from them, goes
into room left for it; tensors start on a cache line as long as those before them fill theirs.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from common.checkpoint.atomic_file import atomic_file
from common.checkpoint.safetensors_file import SafetensorsFile

_ALIGNMENT = 64
_LENGTH_BYTES = 8
_NO_CRC = b'"crc32c":"00000000"'
_CRC = re.compile(rb'"crc32c":"([0-9a-f]{8})"')
_STORED_AS = {np.dtype("<f4"): "F32", np.dtype("u1"): "U8"}


class CheckedWriter:
    def __init__(self, file: BinaryIO, header_bytes: int) -> None:
        self.metadata: dict[str, str] = {}
        self._file = file
        self._header_bytes = -(-(_LENGTH_BYTES + header_bytes) // _ALIGNMENT) * _ALIGNMENT
        self._entries: dict[str, object] = {}
        self._offset = 0
        self._crc = 0
        file.seek(self._header_bytes)

    def add(self, name: str, values: npt.NDArray[Any]) -> None:
        """float32 or uint8."""
        bounds = (self._offset, self._offset + values.nbytes)
        kind = _STORED_AS[values.dtype]
        self._entries[name] = {"dtype": kind, "shape": values.shape, "data_offsets": bounds}
        data = np.ascontiguousarray(values).data
        self._crc = crc32c(data, self._crc)
        self._file.write(data)
        self._offset = bounds[1]

    def finish(self) -> None:
        header = self._header()
        crc = b'"crc32c":"%08x"' % crc32c(header, self._crc)
        self._file.seek(0)
        self._file.write(header.replace(_NO_CRC, crc))

    def _header(self) -> bytes:
        metadata = {**self.metadata, "crc32c": "00000000"}
        text = json.dumps({"__metadata__": metadata, **self._entries}, separators=(",", ":"))
        length = self._header_bytes - _LENGTH_BYTES
        if len(text) > length:
            raise ValueError(f"a header of {len(text)} bytes does not fit the {length} left for it")
        return length.to_bytes(_LENGTH_BYTES, "little") + text.encode().ljust(length)


@contextmanager
def checked_file(path: Path, header_bytes: int) -> Iterator[CheckedWriter]:
    """The file appears when it is whole. Names, types and metadata must fit `header_bytes`."""
    with atomic_file(path) as file:
        writer = CheckedWriter(file, header_bytes)
        yield writer
        writer.finish()


def read_checked(path: Path) -> SafetensorsFile | None:
    """None when there is no such file, or not a whole one."""
    if not path.exists() or path.stat().st_size < _LENGTH_BYTES:
        return None
    stored = np.memmap(path, dtype=np.uint8, mode="r")
    end = _LENGTH_BYTES + int.from_bytes(bytes(stored[:_LENGTH_BYTES]), "little")
    if end > stored.size:
        return None
    header = bytes(stored[:end])
    claimed = _CRC.findall(header)
    if len(claimed) != 1:
        return None
    actual = crc32c(_CRC.sub(_NO_CRC, header), crc32c(stored[end:].data))
    return SafetensorsFile(path) if actual == int(claimed[0], 16) else None
