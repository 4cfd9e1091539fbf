"""Products of tiles on every CPU level, bit for bit against the documented order of sums."""

import numpy as np
import pytest

from common.checkpoint.safetensors_file import widen_bfloat16
from common.checkpoint.stored import Bf16, round_bfloat16
from common.kernels.packed_matrix import Kind, PackedMatrix
from common.kernels.tiles import pack, unpack
from tests.support.native_kernels import Float32Array, NativeKernels, operands
from tests.support.stored_tensors import BF16_KINDS, random_matrix
from tests.support.tile_sums import bfloat16, in_pairs, random_panel, tile_sum

SHAPES = [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2)]
"""Tiles of A, panels of B."""


def assert_same_bits(actual: Float32Array, expected: Float32Array) -> None:
    np.testing.assert_array_equal(actual.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize(("tiles", "states"), SHAPES)
@pytest.mark.parametrize("count", [1, 3])
def test_tile_products_add_in_the_documented_order(
    native: NativeKernels, tiles: int, states: int, count: int
) -> None:
    rng = np.random.default_rng(10 * tiles + states)
    left = round_bfloat16(rng.normal(size=(count, tiles * 16, 32)).astype(np.float32))
    panels = [random_panel(32 * count, seed) for seed in range(states)]
    right = np.stack([in_pairs(panel).reshape(count, 512) for panel in panels])
    found = native.tile_products(tiles, operands(left, right, tiles), states)
    weights = widen_bfloat16(left).swapaxes(0, 1).reshape(tiles * 16, 32 * count)
    for state, panel in enumerate(panels):
        expected = tile_sum(weights, bfloat16(panel))
        assert_same_bits(found[state].reshape(tiles * 16, 16), expected)


@pytest.mark.parametrize(("tiles", "states"), SHAPES)
def test_tile_products_go_on_from_what_was_there(
    native: NativeKernels, tiles: int, states: int
) -> None:
    """So it does not matter how many operands are given at once."""
    rng = np.random.default_rng(tiles)
    left = round_bfloat16(rng.normal(size=(3, tiles * 16, 32)).astype(np.float32))
    right = np.stack([in_pairs(random_panel(96, seed)).reshape(3, 512) for seed in range(states)])
    whole = native.tile_products(tiles, operands(left, right, tiles), states)
    one, others = right[:, :1].copy(), right[:, 1:].copy()
    begun = native.tile_products(tiles, operands(left[:1], one, tiles), states)
    found = native.tile_products(tiles, operands(left[1:], others, tiles), states, onto=begun)
    assert_same_bits(found, whole)


def test_the_order_of_a_sum_shows_in_its_bits() -> None:
    weights = bfloat16(np.random.default_rng(1).normal(size=(32, 96)))
    values = bfloat16(random_panel(96, seed=1))
    assert (tile_sum(weights, values) != weights @ values).any()


def test_rows_of_a_may_lie_apart(native: NativeKernels) -> None:
    """As keys do: one row a token, of which a product takes 32 dimensions."""
    keys = round_bfloat16(np.random.default_rng(2).normal(size=(32, 96)).astype(np.float32))
    panel = random_panel(64, seed=2)
    right = in_pairs(panel).reshape(1, 2, 512)
    call = operands(keys[None, :, :64].copy(), right, 2)
    call.a, call.stride, call.next, call.a_step = keys.ctypes.data, 192, 16 * 192, 32
    call.count = 2
    found = native.tile_products(2, call, 1)
    expected = tile_sum(widen_bfloat16(keys)[:, :64], bfloat16(panel))
    assert_same_bits(found.reshape(32, 16), expected)


def packed_panels(
    matrix: PackedMatrix, count: int
) -> tuple[list[Float32Array], list[Float32Array]]:
    """As float32 and in pairs."""
    panels = [random_panel(32 * matrix.column_tiles, seed) for seed in range(count)]
    return panels, [in_pairs(panel).reshape(-1).view(np.uint8) for panel in panels]


@pytest.mark.parametrize("kind", BF16_KINDS)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("column_tiles", [1, 2, 7])
def test_strip_products_add_in_the_documented_order(
    native: NativeKernels, kind: Kind, count: int, column_tiles: int
) -> None:
    matrix = random_matrix(kind, 64, 32 * column_tiles, seed=count)
    panels, packed = packed_panels(matrix, count)
    weights = unpack(matrix)
    for pair in range(2):
        found = native.strip_products(matrix, pair, packed)
        for panel, sums in zip(panels, found, strict=True):
            own = weights[32 * pair : 32 * pair + 32]
            assert_same_bits(sums, tile_sum(own, bfloat16(panel)))


def test_denormal_inputs_count_as_zero(native: NativeKernels) -> None:
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 1 << 7, (32, 32)).astype(np.uint16) | rng.integers(
        0, 2, (32, 32), dtype=np.uint16
    ) << np.uint16(15)
    huge = in_pairs(np.full((32, 16), 2.0**100, np.float32)).reshape(-1).view(np.uint8)
    found = native.strip_products(pack(Bf16(codes)), 0, [huge])
    assert not found.any()


def test_all_finite_weights_and_inputs_give_the_bits_of_avx2(
    native: NativeKernels, avx2: NativeKernels
) -> None:
    """Sums that overflow, vanish, or meet infinities of both signs included."""
    rng = np.random.default_rng(5)
    for spread in (8, 60, 127):
        exponents = rng.integers(127 - spread, 128 + min(spread, 126), (2, 64, 64))
        bits = (
            exponents << 7
            | rng.integers(0, 128, (2, 64, 64))
            | rng.integers(0, 2, (2, 64, 64)) << 15
        )
        weights, inputs = bits.astype(np.uint16)
        matrix = pack(Bf16(weights))
        panels = list(inputs.reshape(-1)[:2048].reshape(2, 1024).view(np.uint8))
        ours, theirs = (n.strip_products(matrix, 0, panels) for n in (native, avx2))
        # Which of its NaNs a CPU gives is its own affair.
        np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
        assert_same_bits(np.nan_to_num(ours), np.nan_to_num(theirs))
