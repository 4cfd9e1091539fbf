"""Functions of sixteen floats: their errors, and the same bits at every width."""

import numpy as np
import pytest

from tests.support.native_kernels import Float32Array, NativeKernels

DENSE = np.concatenate(
    [
        np.linspace(-130, 126, 160_000, dtype=np.float32),
        np.geomspace(1e-36, 100, 1600, dtype=np.float32),
        -np.geomspace(1e-36, 100, 1600, dtype=np.float32),
    ]
)
AT_LEAST_ONE = np.geomspace(1, 2.0**125, 160_000, dtype=np.float32)
RANGES = {
    "powers": DENSE,
    "bf16_powers": DENSE * 128,
    "reciprocals": AT_LEAST_ONE,
    "silus": DENSE,
}


def relative_error(found: Float32Array, exact: np.ndarray) -> float:
    return float(np.abs(found / exact - 1).max())


def test_powers_of_two_have_a_relative_error_of_3e_6(native: NativeKernels) -> None:
    x = DENSE[DENSE > -125]
    x = x[: x.size // 16 * 16]
    assert relative_error(native.apply("powers", x), np.exp2(x.astype(np.float64))) < 3e-6


def test_powers_of_whole_numbers_and_below_the_lowest_are_exact(native: NativeKernels) -> None:
    whole = np.arange(-124, 124, dtype=np.float32)[:240]
    np.testing.assert_array_equal(native.apply("powers", whole), np.ldexp(1.0, whole.astype(int)))
    low = np.array([-125, -126, -1000, -1e30, -np.inf, 0, -0.0, 1] * 2, dtype=np.float32)
    np.testing.assert_array_equal(native.apply("powers", low), [0, 0, 0, 0, 0, 1, 1, 2] * 2)


def test_powers_for_bf16_are_as_near_as_it_can_tell_them_apart(native: NativeKernels) -> None:
    x = DENSE[DENSE > -126]
    x = x[: x.size // 32 * 32]
    exact = np.exp2(x.astype(np.float64))
    found = native.apply("bf16_powers", x * 128)
    assert relative_error(found, exact) < 2.0**-8 + np.log(2) / 256
    assert abs(float((found / exact).mean()) - 1) < 1e-4
    assert (found.view(np.uint32) & 0xFFFF == 0).all()


def test_powers_for_bf16_end_in_zero(native: NativeKernels) -> None:
    low = np.array([-127, -128, -1000, -1e30, -np.inf, 0, -0.0, 1] * 4, dtype=np.float32)
    found = native.apply("bf16_powers", low * 128)
    np.testing.assert_array_equal(found, [0, 0, 0, 0, 0, 1, 1, 2] * 4)


def test_reciprocals_have_a_relative_error_of_2e_6(native: NativeKernels) -> None:
    exact = 1 / AT_LEAST_ONE.astype(np.float64)
    assert relative_error(native.apply("reciprocals", AT_LEAST_ONE), exact) < 2e-6


def test_silu_is_near_the_true_one(native: NativeKernels) -> None:
    x = DENSE.astype(np.float64)
    exact = x / (1 + np.exp(-x))
    found = native.apply("silus", DENSE)
    # Beyond -86 the exponent is cut off, and the true value is below 1e-35.
    near = DENSE > -86
    assert relative_error(found[near], exact[near]) < 1e-5
    assert np.abs(found[~near]).max() < 1e-34


def test_squares_are_transposed(native: NativeKernels) -> None:
    rows = np.arange(512, dtype=np.float32).reshape(16, 32)
    np.testing.assert_array_equal(native.transpose(rows), rows.T)


@pytest.mark.parametrize("function", RANGES)
def test_every_level_gives_the_bits_of_avx2(
    native: NativeKernels, avx2: NativeKernels, function: str
) -> None:
    ours, theirs = (n.apply(function, RANGES[function]).view(np.uint32) for n in (native, avx2))
    np.testing.assert_array_equal(ours, theirs)
