"""From a stored matrix to tiles and back, in numpy.

Packing moves codes and never computes a weight, except for INT8, which is quantised here: each row
symmetrically over its largest magnitude. `unpack` is what the kernels must agree with.
"""

from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from common.checkpoint.errors import CheckpointError
from common.checkpoint.safetensors_file import Float32Array, widen_bfloat16
from common.checkpoint.stored import (
    Q4,
    Q8,
    Array,
    Bf16,
    StoredTensor,
    dequantised,
    round_bfloat16,
)
from common.kernels.packed_matrix import STRIP_ROWS, Kind, PackedMatrix, padded_rows

_LARGEST_CODE = 127
_QUANTISED_AT_ONCE = 1 << 18
"""Weights; a part that stays in the processor's cache."""
_GROUP_ROWS = 4
"""Rows whose four-bit codes share a word."""
Bytes = npt.NDArray[np.uint8]


def pack(stored: StoredTensor) -> PackedMatrix:
    match stored:
        case Bf16(codes):
            kind, fields = Kind.BF16, [_tiles(codes, 32)]
        case Q8(codes, scales):
            kind, fields = Kind.Q8, [_tiles(codes, 32), _tiles(scales, 1)]
        case Q4(codes, scales, minimums):
            words = _words(_tiles(codes, 32))
            kind, fields = Kind.Q4, [words, _tiles(scales, 1), _tiles(minimums, 1)]
        case _:
            assert_never(stored)
    rows, cols = stored.codes.shape
    return PackedMatrix(kind, rows, cols, _joined(fields, kind), None)


def pack_int8(values: Float32Array) -> PackedMatrix:
    """[rows, columns] float32, finite."""
    rows, cols = values.shape
    codes = np.empty((rows, cols), np.int8)
    scales = np.zeros(padded_rows(rows), np.float32)
    at_once = max(1, _QUANTISED_AT_ONCE // cols)
    for first in range(0, rows, at_once):
        part = slice(first, first + at_once)
        codes[part], scales[:rows][part] = _quantised(values[part])
    tiles = _joined([_tiles(codes, Kind.INT8.tile_columns)], Kind.INT8)
    return PackedMatrix(Kind.INT8, rows, cols, tiles, scales)


def unpack(matrix: PackedMatrix) -> Float32Array:
    """The weights the kernels compute with, [rows, cols]: of INT8 the float32 scale * code, of
    every other kind bfloat16 values."""
    tiles = _by_strip(matrix)
    match matrix.kind:
        case Kind.BF16:
            values = widen_bfloat16(_rows(_field(tiles, 0, np.uint16, 32)))
        case Kind.Q8:
            codes, scales = _field(tiles, 0, np.int8, 32), _field(tiles, 512, np.float16, 1)
            values = _rounded(Q8(_rows(codes), _rows(scales)))
        case Kind.Q4:
            words = tiles[..., :256].copy().view(np.uint16).reshape(*tiles.shape[:2], -1, 1, 32)
            codes = (words >> _shifts() & 15).astype(np.uint8).reshape(*tiles.shape[:2], -1, 32)
            scales, minimums = (_field(tiles, at, np.float16, 1) for at in (256, 288))
            values = _rounded(Q4(_rows(codes), _rows(scales), _rows(minimums)))
        case Kind.INT8:
            if matrix.scales is None:
                raise ValueError("an INT8 matrix needs the scales of its rows")
            codes = _field(tiles, 0, np.int8, Kind.INT8.tile_columns)
            values = _rows(codes).astype(np.float32) * matrix.scales[:, None]
        case _:
            assert_never(matrix.kind)
    return values[: matrix.rows, : matrix.cols]


def _quantised(values: Float32Array) -> tuple[npt.NDArray[np.int8], Float32Array]:
    """Codes, and a scale for each row; a row of zeros has scale 0."""
    largest = np.maximum(values.max(axis=1), -values.min(axis=1))
    if not np.isfinite(largest).all():
        raise CheckpointError("a matrix holds weights that are not finite")
    scales = largest / np.float32(_LARGEST_CODE)
    quotients = values / np.where(scales == 0, np.float32(1), scales)[:, None]
    np.rint(quotients, out=quotients)
    # A scale so small that it is inexact can carry the largest weight beyond its code.
    np.clip(quotients, -_LARGEST_CODE, _LARGEST_CODE, out=quotients)
    return quotients.astype(np.int8), scales


def _tiles(rows: Array, columns: int) -> Array:
    """[rows, any] -> [strips, tiles of a strip, 16, columns], padded with zeros."""
    height, width = padded_rows(len(rows)), -(-rows.shape[1] // columns) * columns
    if (height, width) != rows.shape:
        padding = ((0, height - len(rows)), (0, width - rows.shape[1]))
        rows = np.pad(rows, padding)
    return rows.reshape(-1, STRIP_ROWS, width // columns, columns).swapaxes(1, 2)


def _rows(tiles: Array) -> Array:
    """The inverse, padding included."""
    strips, count, height, columns = tiles.shape
    return tiles.swapaxes(1, 2).reshape(strips * height, count * columns)


def _words(codes: Array) -> Array:
    """[..., 16, 32] codes -> [..., 4, 32] words of four rows each."""
    by_group = codes.reshape(*codes.shape[:2], -1, _GROUP_ROWS, codes.shape[-1])
    words = np.zeros((*codes.shape[:2], STRIP_ROWS // _GROUP_ROWS, codes.shape[-1]), np.uint16)
    for row in range(_GROUP_ROWS):
        words |= by_group[..., row, :].astype(np.uint16) << (4 * row)
    return words


def _shifts() -> npt.NDArray[np.uint16]:
    return np.arange(0, 16, 4, dtype=np.uint16)[:, None]


def _joined(fields: list[Array], kind: Kind) -> Bytes:
    """The bytes of tiles that consist of `fields`, each [strips, tiles of a strip, ...]."""
    strips, count = fields[0].shape[:2]
    parts = [np.ascontiguousarray(f).reshape(strips, count, -1).view(np.uint8) for f in fields]
    tiles = np.concatenate(parts, axis=-1)
    if tiles.shape[-1] != kind.tile_bytes:
        raise ValueError(f"a tile of {kind.name} has {tiles.shape[-1]} bytes")
    return tiles.reshape(strips // 2, 2, count, -1).swapaxes(1, 2).reshape(-1)


def _by_strip(matrix: PackedMatrix) -> Bytes:
    """[strips, tiles of a strip, bytes]"""
    shape = (matrix.strips // 2, matrix.column_tiles, 2, matrix.kind.tile_bytes)
    pairs = matrix.tiles.reshape(shape).swapaxes(1, 2)
    return pairs.reshape(matrix.strips, matrix.column_tiles, -1)


def _field(tiles: Bytes, at: int, dtype: type[np.generic], columns: int) -> Array:
    """[strips, tiles of a strip, 16, columns], from byte `at` of each tile."""
    size = STRIP_ROWS * columns * np.dtype(dtype).itemsize
    found: npt.NDArray[Any] = np.ascontiguousarray(tiles[..., at : at + size]).view(dtype)
    return found.reshape(*tiles.shape[:2], STRIP_ROWS, columns)


def _rounded(stored: StoredTensor) -> Float32Array:
    return widen_bfloat16(round_bfloat16(dequantised(stored)))
