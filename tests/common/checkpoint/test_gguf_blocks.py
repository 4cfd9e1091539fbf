import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize, quantize

from common.checkpoint.errors import CheckpointError
from common.checkpoint.gguf_blocks import gguf_float32, gguf_shape, gguf_stored
from common.checkpoint.stored import Q4, Q8, Bf16, dequantised, round_bfloat16
from tests.support.gguf_blocks import random_blocks, reader_tensor

SHAPE = (24, 512)


@pytest.mark.parametrize(("kind", "kept"), [(Kind.Q8_0, Q8), (Kind.Q4_0, Q4), (Kind.Q4_1, Q4)])
def test_blocks_are_kept_and_stand_for_the_weights_gguf_reads(kind: Kind, kept: type) -> None:
    data = random_blocks(kind, SHAPE, np.random.default_rng(int(kind)))
    tensor = reader_tensor(kind, SHAPE, data)
    stored = gguf_stored(tensor)
    assert type(stored) is kept
    assert stored.codes.shape == SHAPE == gguf_shape(tensor)
    np.testing.assert_array_equal(dequantised(stored), dequantize(data, kind))
    np.testing.assert_array_equal(gguf_float32(tensor), dequantize(data, kind))


def test_bfloat16_is_kept_as_it_lies() -> None:
    values = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    data = quantize(values, Kind.BF16)
    stored = gguf_stored(reader_tensor(Kind.BF16, SHAPE, data))
    assert isinstance(stored, Bf16)
    assert np.shares_memory(stored.codes, data)
    np.testing.assert_array_equal(dequantised(stored), dequantize(data, Kind.BF16))


@pytest.mark.parametrize("kind", [Kind.Q4_K, Kind.Q6_K])
def test_other_blocks_are_dequantised_and_rounded(kind: Kind) -> None:
    data = random_blocks(kind, SHAPE, np.random.default_rng(int(kind)))
    tensor = reader_tensor(kind, SHAPE, data)
    exact = dequantize(data, kind)
    assert np.isfinite(exact).all()
    assert len(np.unique(exact)) > 1000
    np.testing.assert_array_equal(gguf_float32(tensor), exact)
    stored = gguf_stored(tensor)
    assert isinstance(stored, Bf16)
    np.testing.assert_array_equal(stored.codes, round_bfloat16(exact))


@pytest.mark.parametrize(("dtype", "kind"), [("<f4", Kind.F32), ("<f2", Kind.F16)])
def test_plain_floats_are_rounded(dtype: str, kind: Kind) -> None:
    values = np.random.default_rng(2).normal(size=SHAPE).astype(dtype)
    stored = gguf_stored(reader_tensor(kind, SHAPE, values))
    assert isinstance(stored, Bf16)
    np.testing.assert_array_equal(stored.codes, round_bfloat16(values.astype(np.float32)))


@pytest.mark.parametrize(("scale", "kept"), [(8188.0, True), (-8192.0, False), (60000.0, False)])
def test_a_minimum_beyond_float16_makes_the_matrix_bfloat16(scale: float, kept: bool) -> None:
    data = random_blocks(Kind.Q4_0, SHAPE, np.random.default_rng(3))
    data[7, :2] = np.array([scale], np.float16).view(np.uint8)
    stored = gguf_stored(reader_tensor(Kind.Q4_0, SHAPE, data))
    exact = dequantize(data, Kind.Q4_0)
    assert isinstance(stored, Q4) == kept
    np.testing.assert_array_equal(
        round_bfloat16(dequantised(stored)) & 0x7FFF, round_bfloat16(exact) & 0x7FFF
    )


def test_a_kind_that_gguf_cannot_read_is_named() -> None:
    tensor = reader_tensor(Kind.Q8_K, (1, 256), np.zeros((1, 292), np.uint8))
    with pytest.raises(CheckpointError, match="tensor made is Q8_K, which cannot be read"):
        gguf_stored(tensor)
