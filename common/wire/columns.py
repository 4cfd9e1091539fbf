"""Columns of hot messages: integer arrays packed into one bytes field.

A prompt of 4,096 ids as a msgpack array costs a hundred microseconds to check; as packed int32 it
costs nothing until somebody needs it. Little-endian always.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from common.domain.errors import ProtocolError
from common.domain.ids import UnitHash

HASH_BYTES = 32


def pack_i32(values: Iterable[int] | npt.NDArray[np.int32]) -> bytes:
    array = values if isinstance(values, np.ndarray) else np.fromiter(values, dtype="<i4")
    return array.astype("<i4", copy=False).tobytes()


def unpack_i32(data: bytes) -> npt.NDArray[np.int32]:
    """A read-only view. Raises ProtocolError if `data` is no whole number of values."""
    if len(data) % 4:
        raise ProtocolError("int32 column of a broken length")
    return np.frombuffer(data, dtype="<i4")


def pack_hashes(hashes: Sequence[UnitHash]) -> bytes:
    return b"".join(hashes)


def unpack_hashes(data: bytes) -> list[UnitHash]:
    if len(data) % HASH_BYTES:
        raise ProtocolError("hash column of a broken length")
    return [UnitHash(data[i : i + HASH_BYTES]) for i in range(0, len(data), HASH_BYTES)]
