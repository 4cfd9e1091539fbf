"""A packed matrix times the panels of a step, on every CPU level, bit for bit against numpy."""

import numpy as np
import numpy.typing as npt
import pytest

from common.kernels.packed_matrix import Kind, PackedMatrix
from common.kernels.tiles import unpack
from tests.support.native_kernels import Bytes, Float32Array, NativeKernels
from tests.support.stored_tensors import BF16_KINDS, random_matrix
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


@pytest.mark.parametrize("kind", [Kind.BF16, Kind.INT8])
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


@pytest.mark.parametrize(("rows", "columns"), [(40, 44), (32, 1600)])
def test_int8_is_the_exact_sum_scaled(native: NativeKernels, rows: int, columns: int) -> None:
    matrix = random_matrix(Kind.INT8, rows, columns, seed=6)
    panel = random_panel(columns, seed=6)
    data = native.pack(Kind.INT8, panel)
    width = 64 * matrix.column_tiles
    quads = data[: 2 * 16 * width].view(np.int8).reshape(2, width // 4, 16, 4)
    planes = quads.swapaxes(2, 3).reshape(2, width, 16).astype(np.int64)
    lanes = data[2 * 16 * width :].view(np.float32)
    assert matrix.scales is not None
    row_scales = matrix.scales[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        codes = np.rint(unpack(matrix) / matrix.scales[:rows, None]).astype(np.int64)
    high, low = (padded(codes, len(row_scales), width) @ plane for plane in planes)
    # The larger sums do not fit float32; numpy rounds them as the CPU does.
    exact = high.astype(np.float32).astype(np.float64) * 256 + low.astype(np.float32)
    expected = exact.astype(np.float32) * row_scales * lanes
    found = native.multiply(matrix, data[None], threads=1)[0]
    assert_same_bits(found, expected)
    true = padded(unpack(matrix), len(row_scales), columns).astype(np.float64) @ panel
    largest = np.abs(true).max(axis=0)
    assert (np.abs(found - true) < 2e-4 * largest).all()
