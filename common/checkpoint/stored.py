"""A matrix as its file holds it: codes, and what turns them into weights.

Blocks of 32 columns of one row share a scale (and a minimum). Formats that no kernel reads as they
are come as bfloat16, rounded from the exact float32 weights. Every array has the rows of the matrix
first, so rows can be moved in all of them alike.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from common.checkpoint.safetensors_file import Float32Array, widen_bfloat16

BLOCK_COLUMNS = 32
_ROUNDED_AT_ONCE = 1 << 20

Array = npt.NDArray[Any]
Float16Array = npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True, eq=False)
class Bf16:
    codes: npt.NDArray[np.uint16]
    """[rows, columns]: upper halves of float32."""


@dataclass(frozen=True, slots=True, eq=False)
class Q8:
    """weight = scale * code"""

    codes: npt.NDArray[np.int8]
    """[rows, columns]"""
    scales: Float16Array
    """[rows, columns / 32]"""


@dataclass(frozen=True, slots=True, eq=False)
class Q4:
    """weight = scale * code + minimum"""

    codes: npt.NDArray[np.uint8]
    """[rows, columns], each 0..15."""
    scales: Float16Array
    """[rows, columns / 32]"""
    minimums: Float16Array
    """[rows, columns / 32]"""


StoredTensor = Bf16 | Q8 | Q4


def move_rows(stored: StoredTensor, move: Callable[[Array], Array]) -> StoredTensor:
    """`move` puts the rows of any array in another order."""
    match stored:
        case Bf16(codes):
            return Bf16(move(codes))
        case Q8(codes, scales):
            return Q8(move(codes), move(scales))
        case Q4(codes, scales, minimums):
            return Q4(move(codes), move(scales), move(minimums))
        case _:
            assert_never(stored)


def dequantised(stored: StoredTensor) -> Float32Array:
    """The exact weights; where a sum needs more than float32, rounded once."""
    match stored:
        case Bf16(codes):
            return widen_bfloat16(codes)
        case Q8(codes, scales):
            return _of_blocks(scales) * codes.astype(np.float32)
        case Q4(codes, scales, minimums):
            return _of_blocks(scales) * codes.astype(np.float32) + _of_blocks(minimums)
        case _:
            assert_never(stored)


def as_bfloat16(stored: StoredTensor) -> Bf16:
    return stored if isinstance(stored, Bf16) else Bf16(round_bfloat16(dequantised(stored)))


def round_bfloat16(values: Float32Array) -> npt.NDArray[np.uint16]:
    """To nearest, ties to even; beyond the largest: infinity. A NaN stays one."""
    flat = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
    codes = np.empty(flat.size, np.uint16)
    for start in range(0, flat.size, _ROUNDED_AT_ONCE):
        part = flat[start : start + _ROUNDED_AT_ONCE]
        bits = part.view(np.uint32)
        nearest = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
        # The addition would carry some NaNs into infinity; those keep their sign and become quiet.
        codes[start : start + part.size] = np.where(np.isnan(part), bits >> 16 | 0x40, nearest)
    return codes.reshape(values.shape)


def _of_blocks(per_block: Float16Array) -> Float32Array:
    """One value a column instead of one a block."""
    return per_block.astype(np.float32).repeat(BLOCK_COLUMNS, axis=1)
