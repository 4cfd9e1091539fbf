"""What is done to the features of a panel, on every CPU level, against numpy."""

from collections.abc import Callable

import numpy as np
import pytest

from common.checkpoint.stored import round_bfloat16
from common.kernels.packed_matrix import Kind
from tests.support.block_sums import Inputs, inputs_of
from tests.support.native_kernels import Float32Array, NativeKernels
from tests.support.tile_sums import in_pairs, random_panel

FEATURES = [4, 36, 576]
EPS = 1e-5
Change = Callable[[NativeKernels, Float32Array], Float32Array]


def weights_of(features: int) -> Float32Array:
    return np.random.default_rng(features).uniform(0.5, 1.5, features).astype(np.float32)


def turns(features: int) -> tuple[Float32Array, Float32Array]:
    angles = random_panel(features // 2, seed=77)
    return np.cos(angles), np.sin(angles)


def ulps(actual: Float32Array, exact: np.ndarray) -> float:
    """The largest distance, in units of the last place of the exact value."""
    unit = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    return float((np.abs(actual - exact) / unit).max())


@pytest.mark.parametrize("features", FEATURES)
def test_rms_norm_is_within_six_units_of_the_last_place(
    native: NativeKernels, features: int
) -> None:
    panel, weight = random_panel(features, seed=features), weights_of(features)
    mean = (panel.astype(np.float64) ** 2).mean(axis=0)
    exact = panel / np.sqrt(mean + float(np.float32(EPS))) * weight[:, None]
    assert ulps(native.rms_norm(panel, weight, EPS), exact) <= 6


def test_rms_norm_of_nothing_is_nothing(native: NativeKernels) -> None:
    zero = np.zeros((36, 16), np.float32)
    assert not native.rms_norm(zero, weights_of(36), EPS).any()


@pytest.mark.parametrize("dim", [32, 96])
def test_rotation_turns_each_dimension_with_its_partner_of_the_other_half(
    native: NativeKernels, dim: int
) -> None:
    head, (cos, sin) = random_panel(dim, seed=dim), turns(dim)
    first, second = head[: dim // 2], head[dim // 2 :]
    expected = np.concatenate([first * cos - second * sin, second * cos + first * sin])
    np.testing.assert_array_equal(native.rotate(head, cos, sin), expected)


@pytest.mark.parametrize("features", FEATURES)
def test_bfloat16_lies_in_pairs_of_features(native: NativeKernels, features: int) -> None:
    panel = random_panel(features, seed=features)
    packed = native.pack(Kind.BF16, panel).view(np.uint16).reshape(-1, 16, 2)
    assert len(packed) == -(-features // 32) * 16
    np.testing.assert_array_equal(packed[: features // 2], in_pairs(panel))
    assert not packed[features // 2 :].any()


def test_bfloat16_rounds_ties_to_even(native: NativeKernels) -> None:
    bits = (0x3F800000 + 0x8000 * np.arange(512, dtype=np.uint32)).reshape(32, 16)
    panel = np.ascontiguousarray(bits).view(np.float32)
    packed = native.pack(Kind.BF16, panel).view(np.uint16).reshape(-1, 16, 2)
    np.testing.assert_array_equal(packed, in_pairs(panel))
    assert round_bfloat16(panel).reshape(-1)[[1, 3]].tolist() == [0x3F80, 0x3F82]


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("tokens", [1, 7, 16])
def test_int8_lies_in_rows_of_tokens_with_scales_of_blocks(
    native: NativeKernels, features: int, tokens: int
) -> None:
    panel = random_panel(features, seed=features)
    panel[:, 3] = 0
    inputs, count = inputs_of(native.pack(Kind.QUADS8, panel, tokens))
    assert (len(inputs), count) == (-(-features // 64), tokens)
    values = np.pad(panel, ((0, -features % 64), (0, 0))).reshape(-1, 2, 32, 16)
    largest = np.abs(values).max(axis=2)
    factors = np.float32(127) / np.maximum(largest, np.float32(1e-30))
    numbers = np.rint(values * factors[:, :, None]).astype(np.int32)
    scales = largest * np.float32(1 / np.float32(127))
    np.testing.assert_array_equal(inputs["scales"], scales)
    np.testing.assert_array_equal(inputs["sums"], scales * numbers.sum(axis=2).astype(np.float32))
    for block in range(2):
        found = inputs["numbers"][:, block, :tokens].swapaxes(1, 2)
        own = found[:, 32 * block : 32 * block + 32]
        np.testing.assert_array_equal(own, numbers[:, block, :, :tokens])
        assert not found[:, 32 - 32 * block : 64 - 32 * block].any()
    error = np.abs(scales[:, :, None] * numbers - values)
    assert (error <= 0.51 * scales[:, :, None]).all()


def by_lane(inputs: Inputs) -> Float32Array:
    numbers = inputs["numbers"].astype(np.float32).swapaxes(2, 3).reshape(-1, 16)
    return np.concatenate([numbers, *(inputs[x].reshape(-1, 16) for x in ("scales", "sums"))])


CHANGES: dict[str, Change] = {
    "rms_norm": lambda native, x: native.rms_norm(x, weights_of(len(x)), EPS),
    "rotate": lambda native, x: native.rotate(x, *turns(len(x))),
    "pack_bf16": lambda native, x: (
        native.pack(Kind.BF16, x).view(np.uint32).view(np.float32).reshape(-1, 16)
    ),
    "pack_int8": lambda native, x: by_lane(inputs_of(native.pack(Kind.QUADS4, x))[0]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_lane_does_not_depend_on_its_neighbours(native: NativeKernels, change: str) -> None:
    panel, other = random_panel(64, seed=1), random_panel(64, seed=2) * np.float32(1000)
    other[5, ::3], other[7, ::4] = np.inf, np.nan
    for lane in range(16):
        other[:, lane], kept = panel[:, lane], other[:, lane].copy()
        ours, theirs = (CHANGES[change](native, x)[:, lane] for x in (panel, other))
        np.testing.assert_array_equal(ours.view(np.uint32), theirs.view(np.uint32))
        other[:, lane] = kept


@pytest.mark.parametrize("change", CHANGES)
def test_every_level_gives_the_bits_of_avx2(
    native: NativeKernels, avx2: NativeKernels, change: str
) -> None:
    panel = random_panel(576, seed=9)
    panel[::7] *= np.float32(1e-30)
    ours, theirs = (CHANGES[change](n, panel).view(np.uint32) for n in (native, avx2))
    np.testing.assert_array_equal(ours, theirs)
