"""From a stored matrix to tiles and back, in numpy.

Packing moves codes and never computes a weight, except that bfloat16 for int8 inputs is quantised
here: each block of 32 columns of a row over its largest magnitude. `unpack` is what the kernels
must agree with.
"""

from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from common.checkpoint.errors import CheckpointError
from common.checkpoint.safetensors_file import Float32Array, widen_bfloat16
from common.checkpoint.stored import (
    BLOCK_COLUMNS,
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
_CODE_OF_ZERO = 128
_QUADS = 8
"""Of columns, in a block."""
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
    return PackedMatrix(kind, rows, cols, _joined(fields, kind))


def pack_quads(stored: StoredTensor) -> PackedMatrix:
    """For inputs of int8. Raises CheckpointError where weights are not finite."""
    match stored:
        case Bf16(codes):
            return pack_quads(_quantised(codes))
        case Q8(codes, scales):
            quads = _quads(codes.view(np.uint8) ^ np.uint8(_CODE_OF_ZERO))
            kind, fields = Kind.QUADS8, [quads, _by_block(scales)]
        case Q4(codes, scales, minimums):
            first, second = np.split(_quads(codes), 2, axis=2)
            kind = Kind.QUADS4
            fields = [first | second << np.uint8(4), _by_block(scales), _by_block(minimums)]
        case _:
            assert_never(stored)
    rows, cols = stored.codes.shape
    return PackedMatrix(kind, rows, cols, _joined(fields, kind))


def unpack(matrix: PackedMatrix) -> Float32Array:
    """The weights the kernels compute with, [rows, cols]: bfloat16 values, of QUADS exact ones."""
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
        case Kind.QUADS4:
            both = tiles[..., :512].reshape(*tiles.shape[:2], _QUADS, STRIP_ROWS, 4)
            codes = _from_quads(np.concatenate([both & 15, both >> 4], axis=2))
            scales, minimums = _of_blocks(tiles, 512), _of_blocks(tiles, 576)
            values = dequantised(Q4(codes, scales, minimums))
        case Kind.QUADS8:
            codes = _from_quads(tiles[..., :1024].reshape(*tiles.shape[:2], -1, STRIP_ROWS, 4))
            signed = (codes ^ np.uint8(_CODE_OF_ZERO)).view(np.int8)
            values = dequantised(Q8(signed, _of_blocks(tiles, 1024)))
        case _:
            assert_never(matrix.kind)
    return values[: matrix.rows, : matrix.cols]


def _quantised(codes: npt.NDArray[np.uint16]) -> Q8:
    """Of [rows, any] bfloat16."""
    padding = -codes.shape[1] % BLOCK_COLUMNS
    codes = np.pad(codes, ((0, 0), (0, padding)))
    rows, cols = codes.shape
    found = Q8(np.empty(codes.shape, np.int8), np.empty((rows, cols // BLOCK_COLUMNS), np.float16))
    at_once = max(1, _QUANTISED_AT_ONCE // cols)
    for first in range(0, rows, at_once):
        part = slice(first, first + at_once)
        blocks = widen_bfloat16(codes[part]).reshape(-1, cols // BLOCK_COLUMNS, BLOCK_COLUMNS)
        found.scales[part] = _scales(np.abs(blocks).max(axis=2))
        divisors = np.where(found.scales[part] == 0, np.float16(1), found.scales[part])
        found.codes[part] = np.rint(blocks / divisors[..., None]).reshape(-1, cols)
    return Q8(found.codes[:, : cols - padding], found.scales)


def _scales(largest: Float32Array) -> npt.NDArray[np.float16]:
    """Large enough that no code is beyond 127."""
    wanted = largest / np.float32(_LARGEST_CODE)
    with np.errstate(over="ignore"):
        scales = wanted.astype(np.float16)
        scales = np.where(scales < wanted, np.nextafter(scales, np.float16(np.inf)), scales)
    if not np.isfinite(scales).all():
        raise CheckpointError("a matrix holds weights that are not finite, or beyond all scales")
    return scales


def _quads(codes: Array) -> Array:
    """[rows, any] -> [strips, tiles of a strip, 16 quads, 16 rows, 4]"""
    tiles = _tiles(codes, 2 * BLOCK_COLUMNS)
    return tiles.reshape(*tiles.shape[:3], -1, 4).swapaxes(2, 3)


def _from_quads(quads: Array) -> Array:
    """The inverse, padding included."""
    return _rows(quads.swapaxes(2, 3).reshape(*quads.shape[:2], STRIP_ROWS, -1))


def _by_block(scales: Array) -> Array:
    """[rows, blocks of columns] -> [strips, tiles of a strip, 2 blocks, 16 rows]"""
    return _tiles(scales, 2).swapaxes(2, 3)


def _of_blocks(tiles: Bytes, at: int) -> Array:
    """The inverse, padding included, from byte `at` of each tile."""
    halves = np.ascontiguousarray(tiles[..., at : at + 64]).view(np.float16)
    return _rows(halves.reshape(*tiles.shape[:2], 2, STRIP_ROWS).swapaxes(2, 3))


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
