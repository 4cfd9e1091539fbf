"""Stored tiles as every CPU level expands them, against `common.kernels.tiles.unpack`."""

from collections.abc import Callable

import numpy as np
import pytest

from common.checkpoint.safetensors_file import widen_bfloat16
from common.checkpoint.stored import Q4, Q8, StoredTensor
from common.kernels.packed_matrix import Kind, PackedMatrix
from common.kernels.tiles import pack, pack_quads, unpack
from tests.support.native_kernels import Float32Array, NativeKernels
from tests.support.stored_tensors import BF16_KINDS, random_matrix, random_stored


def expanded(native: NativeKernels, matrix: PackedMatrix) -> Float32Array:
    """Tile by tile, [padded rows, padded columns]."""
    size, count = matrix.kind.tile_bytes, matrix.column_tiles
    weights = np.zeros((matrix.strips * 16, count * 32), np.float32)
    for index in range(matrix.strips * count):
        pair, rest = divmod(index, 2 * count)
        k, second = divmod(rest, 2)
        tile = matrix.tiles[index * size : (index + 1) * size]
        row = (2 * pair + second) * 16
        codes = native.expand(matrix.kind, tile)
        weights[row : row + 16, k * 32 : (k + 1) * 32] = widen_bfloat16(codes)
    return weights


@pytest.mark.parametrize("kind", BF16_KINDS)
def test_tiles_expand_to_the_weights_that_unpacking_gives(
    native: NativeKernels, kind: Kind
) -> None:
    for seed in range(4):
        matrix = random_matrix(kind, 43, 96, seed)
        weights = expanded(native, matrix)
        np.testing.assert_array_equal(weights[:43], unpack(matrix))
        assert not weights[43:].any()


def test_every_four_bit_code_of_every_row_is_looked_up_in_its_own_rows_weights(
    native: NativeKernels,
) -> None:
    rows = np.arange(32, dtype=np.uint8)[:, None]
    codes = ((np.arange(32, dtype=np.uint8) + rows) % 16).astype(np.uint8)
    scales = (rows + 1).astype(np.float16)
    matrix = pack(Q4(codes, scales, (-8 * scales).astype(np.float16)))
    np.testing.assert_array_equal(expanded(native, matrix), (codes - 8.0) * scales)


def test_scales_of_all_sizes_round_alike(native: NativeKernels) -> None:
    scales = np.ldexp(1 + 31 / 1024, np.arange(-24, 16))[:, None].astype(np.float16)
    rng = np.random.default_rng(3)
    minimums = rng.permuted(-scales).astype(np.float16)
    shape = (len(scales), 32)
    for stored in (
        Q8(rng.integers(-128, 128, shape, dtype=np.int8), scales),
        Q4(rng.integers(0, 16, shape, dtype=np.uint8), scales, minimums),
    ):
        matrix = pack(stored)
        np.testing.assert_array_equal(expanded(native, matrix)[: len(scales)], unpack(matrix))


@pytest.mark.parametrize("kind", list(Kind))
def test_a_row_is_read_as_it_was_packed(native: NativeKernels, kind: Kind) -> None:
    matrix = random_matrix(kind, 70, 96, seed=8)
    weights = unpack(matrix)
    for row in (0, 15, 16, 31, 32, 69):
        np.testing.assert_array_equal(native.read_row(matrix, row), weights[row])


@pytest.mark.parametrize("make", [pack, pack_quads])
def test_a_row_ends_where_its_columns_end(
    native: NativeKernels, make: Callable[[StoredTensor], PackedMatrix]
) -> None:
    matrix = make(random_stored(Kind.BF16, 3, 37, np.random.default_rng(8)))
    np.testing.assert_array_equal(native.read_row(matrix, 2), unpack(matrix)[2])
