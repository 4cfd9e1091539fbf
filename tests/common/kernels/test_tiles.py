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
from common.checkpoint.stored import Q4, Q8, Array, Bf16, StoredTensor, dequantised, round_bfloat16
from common.kernels.packed_matrix import Kind, PackedMatrix
from common.kernels.tiles import pack, pack_quads, unpack
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
        case Kind.QUADS4:
            block, place = divmod(k, 32)
            byte = data[start + place // 4 * 64 + 4 * r + place % 4]
            (scale,) = struct.unpack_from("<e", data, start + 512 + 32 * block + 2 * r)
            (minimum,) = struct.unpack_from("<e", data, start + 576 + 32 * block + 2 * r)
            return scale * (byte >> 4 * block & 15) + minimum
        case Kind.QUADS8:
            byte = data[start + k // 4 * 64 + 4 * r + k % 4]
            (scale,) = struct.unpack_from("<e", data, start + 1024 + 32 * (k // 32) + 2 * r)
            return scale * (byte - 128)


@pytest.mark.parametrize("kind", [Kind.BF16, Kind.Q8, Kind.Q4])
def test_every_weight_lies_where_the_kernels_look_for_it(kind: Kind) -> None:
    stored = random_stored(kind, 37, 3, np.random.default_rng(int(kind)))
    matrix, weights = pack(stored), dequantised(stored)
    assert (matrix.kind, matrix.rows, matrix.cols) == (kind, 37, 96)
    assert matrix.tiles.size == 4 * 3 * kind.tile_bytes
    for row in range(64):
        for col in range(96):
            expected = float(weights[row, col]) if row < 37 else 0.0
            assert np.float32(weight_at(matrix, row, col)) == expected


@pytest.mark.parametrize(("kind", "quads"), [(Kind.Q8, Kind.QUADS8), (Kind.Q4, Kind.QUADS4)])
def test_codes_for_int8_lie_where_the_kernels_look_for_them(kind: Kind, quads: Kind) -> None:
    stored = random_stored(kind, 37, 3, np.random.default_rng(int(kind)))
    matrix, weights = pack_quads(stored), dequantised(stored)
    assert (matrix.kind, matrix.rows, matrix.cols) == (quads, 37, 96)
    assert matrix.tiles.size == 4 * 2 * quads.tile_bytes
    for row in range(64):
        for col in range(128):
            expected = float(weights[row, col]) if row < 37 and col < 96 else 0.0
            assert np.float32(weight_at(matrix, row, col)) == expected


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
@given(kind=st.sampled_from([Kind.Q8, Kind.Q4]), rows=ROWS, blocks=st.integers(1, 5), seed=SEEDS)
def test_quads_keep_the_exact_weights(kind: Kind, rows: int, blocks: int, seed: int) -> None:
    stored = random_stored(kind, rows, blocks, np.random.default_rng(seed))
    np.testing.assert_array_equal(unpack(pack_quads(stored)), dequantised(stored))


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, cols=st.integers(1, 140), seed=SEEDS, exponent=st.integers(-40, 15))
def test_bfloat16_becomes_the_nearest_multiple_of_the_scale_of_its_block(
    rows: int, cols: int, seed: int, exponent: int
) -> None:
    rng = np.random.default_rng(seed)
    codes = round_bfloat16((rng.normal(size=(rows, cols)) * 2.0**exponent).astype(np.float32))
    codes[rng.integers(rows)] = 0
    values, matrix = widen_bfloat16(codes), pack_quads(Bf16(codes))
    assert matrix.kind is Kind.QUADS8
    padded = np.pad(values, ((0, 0), (0, -cols % 32))).reshape(rows, -1, 32)
    largest = np.abs(padded).max(axis=2).astype(np.float64)
    # The next half-precision number above the exact scale.
    scales = np.repeat(largest / 127 * (1 + 2.0**-10) + 2.0**-24, 32, axis=1)[:, :cols]
    assert (np.abs(unpack(matrix) - values) <= 0.5001 * scales).all()
    assert not unpack(matrix)[values == 0].any()


def test_rows_are_quantised_alike_whatever_their_neighbours() -> None:
    codes = round_bfloat16(np.random.default_rng(5).normal(size=(700, 900)).astype(np.float32))
    alone = unpack(pack_quads(Bf16(codes[650:])))
    np.testing.assert_array_equal(unpack(pack_quads(Bf16(codes)))[650:], alone)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e8])
def test_weights_that_no_scale_reaches_are_refused(value: float) -> None:
    values = np.ones((3, 5), np.float32)
    values[1, 2] = value
    with pytest.raises(CheckpointError, match="not finite, or beyond"):
        pack_quads(Bf16(round_bfloat16(values)))
