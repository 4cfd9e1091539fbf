"""Tiles against a reader that finds one weight at a time, and against gguf's own dequantisation."""

import struct

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants
from hypothesis import given, settings
from hypothesis import strategies as st

from common.checkpoint.errors import CheckpointError
from common.checkpoint.gguf_blocks import gguf_stored
from common.checkpoint.safetensors_file import Float32Array, widen_bfloat16
from common.checkpoint.stored import Q4, Q8, Array, Bf16, StoredTensor, dequantised
from common.kernels.packed_matrix import Kind, PackedMatrix
from common.kernels.tiles import pack, pack_int8, unpack
from tests.support.gguf_blocks import random_blocks, reader_tensor

ROWS = st.integers(1, 70)
SEEDS = st.integers(0, 1 << 32)
QUANTIZATIONS = {
    GGMLQuantizationType.Q8_0: Kind.Q8,
    GGMLQuantizationType.Q4_0: Kind.Q4,
    GGMLQuantizationType.Q4_1: Kind.Q4,
}


def rounded(values: Float32Array) -> Float32Array:
    """By gguf, not by us."""
    return quants.dequantize(
        quants.quantize(values, GGMLQuantizationType.BF16), GGMLQuantizationType.BF16
    )


def random_stored(kind: Kind, rows: int, blocks: int, rng: np.random.Generator) -> StoredTensor:
    def halves() -> Array:
        return rng.normal(size=(rows, blocks)).astype(np.float16)

    shape = (rows, 32 * blocks)
    match kind:
        case Kind.Q8:
            return Q8(rng.integers(-128, 128, shape, dtype=np.int8), halves())
        case Kind.Q4:
            return Q4(rng.integers(0, 16, shape, dtype=np.uint8), halves(), halves())
        case _:
            return Bf16(rng.integers(0, 0x7F80, shape, dtype=np.uint16))


def weight_at(matrix: PackedMatrix, row: int, col: int) -> float:
    """From the description of the tiles, with no regard for speed; unrounded."""
    kind, data = matrix.kind, matrix.tiles.tobytes()
    strip, r = divmod(row, 16)
    tile, k = divmod(col, kind.tile_columns)
    pair, second = divmod(strip, 2)
    start = ((pair * matrix.column_tiles + tile) * 2 + second) * kind.tile_bytes
    match kind:
        case Kind.BF16:
            (code,) = struct.unpack_from("<H", data, start + 2 * (32 * r + k))
            return struct.unpack("<f", struct.pack("<I", code << 16))[0]
        case Kind.Q8:
            (code,) = struct.unpack_from("<b", data, start + 32 * r + k)
            (scale,) = struct.unpack_from("<e", data, start + 512 + 2 * r)
            return scale * code
        case Kind.Q4:
            (word,) = struct.unpack_from("<H", data, start + 64 * (r // 4) + 2 * k)
            (scale,) = struct.unpack_from("<e", data, start + 256 + 2 * r)
            (minimum,) = struct.unpack_from("<e", data, start + 288 + 2 * r)
            return scale * (word >> 4 * (r % 4) & 15) + minimum
        case Kind.INT8:
            (code,) = struct.unpack_from("<b", data, start + 64 * r + k)
            assert matrix.scales is not None
            return float(matrix.scales[row]) * code


@pytest.mark.parametrize("kind", [Kind.BF16, Kind.Q8, Kind.Q4])
def test_every_weight_lies_where_the_kernels_look_for_it(kind: Kind) -> None:
    stored = random_stored(kind, 37, 3, np.random.default_rng(int(kind)))
    matrix, weights = pack(stored), dequantised(stored)
    assert (matrix.kind, matrix.rows, matrix.cols, matrix.scales) == (kind, 37, 96, None)
    assert matrix.tiles.size == 4 * 3 * kind.tile_bytes
    for row in range(64):
        for col in range(96):
            expected = float(weights[row, col]) if row < 37 else 0.0
            assert np.float32(weight_at(matrix, row, col)) == expected


def test_int8_weights_lie_where_the_kernels_look_for_them() -> None:
    values = np.random.default_rng(4).normal(size=(37, 70)).astype(np.float32)
    matrix = pack_int8(values)
    assert (matrix.kind, matrix.rows, matrix.cols) == (Kind.INT8, 37, 70)
    assert matrix.tiles.size == 4 * 2 * 1024
    assert matrix.scales is not None
    assert matrix.scales.shape == (64,)
    assert not matrix.scales[37:].any()
    for row in range(64):
        for col in range(128):
            expected = values[row, col] if row < 37 and col < 70 else 0.0
            assert abs(weight_at(matrix, row, col) - expected) <= 0.5001 * matrix.scales[row]


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from([Kind.Q8, Kind.Q4]), rows=ROWS, blocks=st.integers(1, 5), seed=SEEDS)
def test_unpacking_gives_the_rounded_weights(kind: Kind, rows: int, blocks: int, seed: int) -> None:
    stored = random_stored(kind, rows, blocks, np.random.default_rng(seed))
    weights = unpack(pack(stored))
    assert weights.shape == (rows, 32 * blocks)
    np.testing.assert_array_equal(weights, rounded(dequantised(stored)))


@settings(max_examples=60, deadline=None)
@given(
    quantization=st.sampled_from(list(QUANTIZATIONS)),
    rows=ROWS,
    blocks=st.integers(1, 5),
    seed=SEEDS,
)
def test_a_gguf_matrix_is_the_bfloat16_nearest_to_what_gguf_reads(
    quantization: GGMLQuantizationType, rows: int, blocks: int, seed: int
) -> None:
    shape = (rows, 32 * blocks)
    data = random_blocks(quantization, shape, np.random.default_rng(seed))
    matrix = pack(gguf_stored(reader_tensor(quantization, shape, data)))
    assert matrix.kind is QUANTIZATIONS[quantization]
    np.testing.assert_array_equal(unpack(matrix), rounded(quants.dequantize(data, quantization)))


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, cols=st.integers(1, 100), seed=SEEDS)
def test_bfloat16_comes_back_bit_for_bit(rows: int, cols: int, seed: int) -> None:
    codes = np.random.default_rng(seed).integers(0, 1 << 16, (rows, cols), dtype=np.uint16)
    weights = unpack(pack(Bf16(codes)))
    np.testing.assert_array_equal(weights.view(np.uint32), widen_bfloat16(codes).view(np.uint32))


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, cols=st.integers(1, 140), seed=SEEDS, exponent=st.integers(-130, 120))
def test_int8_is_the_nearest_multiple_of_the_scale_of_its_row(
    rows: int, cols: int, seed: int, exponent: int
) -> None:
    rng = np.random.default_rng(seed)
    values = (rng.normal(size=(rows, cols)) * 2.0**exponent).astype(np.float32)
    values[rng.integers(rows)] = 0
    matrix = pack_int8(values)
    weights, largest = unpack(matrix).astype(np.float64), np.abs(values).max(axis=1)
    assert matrix.scales is not None
    scales = matrix.scales[:rows].astype(np.float64)
    np.testing.assert_array_equal(matrix.scales[:rows], largest / np.float32(127))
    # Scales below 2^-126 lose digits, and the largest weights of their rows are cut off.
    exact = scales >= 2.0**-126
    error = np.abs(weights - values)[exact]
    assert (error <= 0.5001 * scales[exact, None]).all()
    assert np.isfinite(weights).all()
    assert not weights[scales == 0].any()
    assert np.abs(matrix.tiles.view(np.int8).astype(int)).max() <= 127


@settings(max_examples=30, deadline=None)
@given(rows=ROWS, cols=st.integers(1, 140), seed=SEEDS)
def test_int8_of_its_own_weights_is_itself(rows: int, cols: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(-127, 128, (rows, cols)).astype(np.float32)
    codes[:, rng.integers(cols)] = 127
    values = codes * np.float32(0.25)
    np.testing.assert_array_equal(unpack(pack_int8(values)), values)


def test_rows_are_quantised_alike_whatever_their_neighbours() -> None:
    values = np.random.default_rng(5).normal(size=(700, 900)).astype(np.float32)
    np.testing.assert_array_equal(unpack(pack_int8(values))[650:], unpack(pack_int8(values[650:])))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_int8_refuses_weights_that_are_not_finite(value: float) -> None:
    values = np.ones((3, 5), np.float32)
    values[1, 2] = value
    with pytest.raises(CheckpointError, match="not finite"):
        pack_int8(values)


def test_int8_tiles_are_useless_without_scales() -> None:
    tiles = pack_int8(np.ones((1, 1), np.float32)).tiles
    with pytest.raises(ValueError, match="needs the scales"):
        unpack(PackedMatrix(Kind.INT8, 1, 1, tiles, None))
