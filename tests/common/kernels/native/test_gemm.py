"""A packed matrix times the panels of a step, on every CPU level, bit for bit against numpy."""

import numpy as np
import numpy.typing as npt
import pytest

from common.checkpoint.stored import Q4, Q8
from common.kernels.packed_matrix import Kind, PackedMatrix
from common.kernels.tiles import pack_quads, unpack
from tests.support.block_sums import block_sum, inputs_of
from tests.support.native_kernels import Bytes, Float32Array, NativeKernels
from tests.support.stored_tensors import BF16_KINDS, INT8_KINDS, random_matrix, random_stored
from tests.support.tile_sums import bfloat16, random_panel, tile_sum


def packed(native: NativeKernels, kind: Kind, panels: list[Float32Array]) -> Bytes:
    return np.stack([native.pack(kind, panel) for panel in panels])


def assert_same_bits(actual: Float32Array, expected: Float32Array) -> None:
    np.testing.assert_array_equal(actual.view(np.uint32), expected.view(np.uint32))


def padded(rows: npt.NDArray[np.generic], height: int, width: int) -> npt.NDArray[np.generic]:
    return np.pad(rows, ((0, height - len(rows)), (0, width - rows.shape[1])))


def bf16_product(matrix: PackedMatrix, panel: Float32Array) -> Float32Array:
    columns = 32 * matrix.column_tiles
    weights = padded(unpack(matrix), matrix.strips * 16, columns)
    return tile_sum(weights, padded(bfloat16(panel), columns, 16))


@pytest.mark.parametrize("kind", BF16_KINDS)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_few_panels_and_many_give_the_same_bits(
    native: NativeKernels, kind: Kind, count: int
) -> None:
    matrix = random_matrix(kind, 75, 96, seed=1)
    panels = [random_panel(96, seed) for seed in range(count)]
    found = native.multiply(matrix, packed(native, kind, panels), threads=1)
    for panel, product in zip(panels, found, strict=True):
        assert_same_bits(product, bf16_product(matrix, panel))


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("threads", [2, 3, 5])
def test_any_number_of_threads_gives_the_same_bits(
    native: NativeKernels, kind: Kind, threads: int
) -> None:
    matrix = random_matrix(kind, 200, 64, seed=2)
    panels = packed(native, kind, [random_panel(64, seed) for seed in range(3)])
    alone = native.multiply(matrix, panels, threads=1)
    assert_same_bits(native.multiply(matrix, panels, threads=threads), alone)


@pytest.mark.parametrize("kind", [Kind.BF16, *INT8_KINDS])
def test_panels_that_do_not_fit_the_cache_together_meet_the_weights_in_turns(
    native: NativeKernels, kind: Kind
) -> None:
    matrix = random_matrix(kind, 64, 8192, seed=3)
    panels = packed(native, kind, [random_panel(8192, seed) for seed in range(5)])
    found = native.multiply(matrix, panels, threads=2)
    for index in range(5):
        alone = native.multiply(matrix, panels[index : index + 1], threads=1)
        assert_same_bits(found[index], alone[0])


def test_columns_beyond_the_last_do_not_count(native: NativeKernels) -> None:
    matrix = random_matrix(Kind.BF16, 40, 44, seed=4)
    panel = random_panel(44, seed=4)
    found = native.multiply(matrix, packed(native, Kind.BF16, [panel]), threads=1)
    assert_same_bits(found[0], bf16_product(matrix, panel))


@pytest.mark.parametrize("kind", list(Kind))
def test_a_bias_is_added_to_the_finished_sum(native: NativeKernels, kind: Kind) -> None:
    matrix = random_matrix(kind, 40, 32, seed=5)
    bias = np.random.default_rng(5).normal(size=64).astype(np.float32)
    panels = packed(native, kind, [random_panel(32, seed) for seed in range(2)])
    without = native.multiply(matrix, panels, threads=1)
    found = native.multiply(matrix, panels, threads=1, bias=bias)
    assert_same_bits(found, without + bias[:, None])


@pytest.mark.parametrize("kind", [Kind.Q4, Kind.Q8])
@pytest.mark.parametrize(("rows", "columns"), [(40, 32), (64, 96), (33, 1600)])
@pytest.mark.parametrize("tokens", [1, 4, 5, 16])
def test_blocks_are_summed_exactly_scaled_and_added_in_order(
    native: NativeKernels, kind: Kind, rows: int, columns: int, tokens: int
) -> None:
    stored = random_stored(kind, rows, columns, np.random.default_rng(6))
    assert isinstance(stored, Q4 | Q8)
    matrix = pack_quads(stored)
    panel = random_panel(columns, seed=6)
    data = native.pack(matrix.kind, panel, tokens)
    inputs, count = inputs_of(data)
    assert count == tokens
    found = native.multiply(matrix, data[None], threads=1)[0]
    assert_same_bits(found[:rows, :tokens], block_sum(stored, inputs)[:, :tokens])
    assert not found[rows:].any()
    assert not found[:, tokens:].any()


@pytest.mark.parametrize("kind", INT8_KINDS)
def test_int8_is_close_to_the_exact_product(native: NativeKernels, kind: Kind) -> None:
    matrix = random_matrix(kind, 64, 1600, seed=7)
    panel = random_panel(1600, seed=7)
    found = native.multiply(matrix, packed(native, kind, [panel]), threads=1)[0]
    weights = unpack(matrix).astype(np.float64)
    noise = np.abs(weights).max() * np.abs(panel).max(axis=0) / 254 * np.sqrt(1600)
    assert (np.abs(found - weights @ panel) < 4 * noise).all()


@pytest.mark.parametrize("kind", INT8_KINDS)
def test_a_token_has_the_same_bits_whatever_comes_with_it(
    native: NativeKernels, kind: Kind
) -> None:
    """Few tokens and many are multiplied in different ways."""
    matrix = random_matrix(kind, 64, 192, seed=8)
    panel = random_panel(192, seed=8)
    all_of_them = native.multiply(matrix, native.pack(kind, panel)[None], threads=1)[0]
    for tokens in range(1, 16):
        some = native.multiply(matrix, native.pack(kind, panel, tokens)[None], threads=1)[0]
        assert_same_bits(some[:, :tokens], all_of_them[:, :tokens])


@pytest.mark.parametrize("kind", [Kind.Q4, Kind.Q8])
def test_the_largest_sums_of_a_block_do_not_overflow(native: NativeKernels, kind: Kind) -> None:
    ones = np.ones((32, 2), np.float16)
    codes = np.full((32, 64), 15 if kind is Kind.Q4 else 127)
    codes[::2] = 0 if kind is Kind.Q4 else -128
    if kind is Kind.Q4:
        stored: Q4 | Q8 = Q4(codes.astype(np.uint8), ones, -8 * ones)
    else:
        stored = Q8(codes.astype(np.int8), ones)
    panel = np.full((64, 16), 127.0, np.float32)
    panel[:, ::3] = -127.0
    data = native.pack(pack_quads(stored).kind, panel)
    found = native.multiply(pack_quads(stored), data[None], threads=1)[0]
    assert_same_bits(found, block_sum(stored, inputs_of(data)[0]))
