import numpy as np
import pytest
import torch

from common.checkpoint.safetensors_file import widen_bfloat16
from common.checkpoint.stored import (
    Q4,
    Q8,
    Bf16,
    as_bfloat16,
    dequantised,
    move_rows,
    round_bfloat16,
)

HALVES = np.array([[0.5, -2.0], [1.0, 0.0]], np.float16)


def q8() -> Q8:
    return Q8(np.arange(-64, 64, dtype=np.int8).reshape(2, 64), HALVES)


def q4() -> Q4:
    return Q4((np.arange(128, dtype=np.uint8) % 16).reshape(2, 64), HALVES, HALVES[::-1])


def test_rounding_is_what_torch_does() -> None:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 1 << 32, (1500, 1501), dtype=np.uint32)
    bits[0, :8] = [0, 1 << 31, 0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0xFF800000, 0x8000]
    values = bits.view(np.float32)
    expected = torch.from_numpy(values).bfloat16().float().numpy()
    rounded = round_bfloat16(values)
    assert rounded.shape == values.shape
    np.testing.assert_array_equal(widen_bfloat16(rounded), expected)


@pytest.mark.parametrize("bits", [0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_nan_stays_one_with_its_sign(bits: int) -> None:
    (code,) = round_bfloat16(np.array([bits], np.uint32).view(np.float32))
    assert np.isnan(widen_bfloat16(np.array([code])))[0]
    assert int(code) >> 15 == bits >> 31


def test_weights_follow_from_the_codes_of_each_block() -> None:
    weights = dequantised(q8())
    assert weights[0, 0] == -32.0
    assert weights[0, 33] == 62.0
    assert weights[1, 5] == 5.0
    assert not weights[1, 32:].any()
    weights = dequantised(q4())
    assert weights[0, 3] == 0.5 * 3 + 1.0
    assert weights[0, 35] == -2.0 * 3 + 0.0
    assert weights[1, 63] == 0.0 * 15 - 2.0
    assert dequantised(Bf16(np.array([[0x3F80, 0xC000]], np.uint16))).tolist() == [[1.0, -2.0]]


def test_a_matrix_becomes_bfloat16_by_rounding_its_weights() -> None:
    plain = Bf16(np.array([[0x3F81]], np.uint16))
    assert as_bfloat16(plain) is plain
    fine = Q4(q4().codes, HALVES * np.float16(1.001), HALVES)
    codes = as_bfloat16(fine).codes
    np.testing.assert_array_equal(codes, round_bfloat16(dequantised(fine)))
    assert (widen_bfloat16(codes) != dequantised(fine)).any()


@pytest.mark.parametrize("stored", [q8(), q4(), Bf16(np.arange(6, dtype=np.uint16).reshape(2, 3))])
def test_rows_move_with_all_that_belongs_to_them(stored: Bf16 | Q8 | Q4) -> None:
    moved = move_rows(stored, lambda rows: rows[::-1])
    assert type(moved) is type(stored)
    np.testing.assert_array_equal(dequantised(moved), dequantised(stored)[::-1])
