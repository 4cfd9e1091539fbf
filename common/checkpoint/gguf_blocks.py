"""Tensors of a GGUF file, from the bytes of their blocks: as float32, and as they are stored.

A block is 32 columns of a row in the formats that are kept: Q8_0 is a float16 scale and 32 bytes;
Q4_0 a scale and 16 bytes, whose low halves are columns 0..15 and whose high halves are 16..31; Q4_1
has a float16 minimum after the scale. The minimum of Q4_0 is -8 times its scale. Every other format
is dequantised and rounded to bfloat16.
"""

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, ReaderTensor
from gguf.quants import dequantize

from common.checkpoint.errors import CheckpointError
from common.checkpoint.safetensors_file import Float32Array
from common.checkpoint.stored import (
    BLOCK_COLUMNS,
    Q4,
    Q8,
    Bf16,
    Float16Array,
    StoredTensor,
    round_bfloat16,
)
from common.checkpoint.tensor_shapes import Shape

Bytes = npt.NDArray[np.uint8]


def gguf_shape(tensor: ReaderTensor) -> Shape:
    return tuple(int(size) for size in reversed(tensor.shape))


def gguf_float32(tensor: ReaderTensor) -> Float32Array:
    try:
        values = dequantize(tensor.data, tensor.tensor_type)
    except NotImplementedError as error:
        raise CheckpointError(
            f"tensor {tensor.name} is {tensor.tensor_type.name}, which cannot be read"
        ) from error
    return np.asarray(values, dtype=np.float32).reshape(gguf_shape(tensor))


def gguf_stored(tensor: ReaderTensor) -> StoredTensor:
    """`tensor` is a matrix."""
    kept: StoredTensor | None
    match tensor.tensor_type:
        case GGMLQuantizationType.BF16:
            kept = Bf16(tensor.data.view(np.uint16).reshape(gguf_shape(tensor)))
        case GGMLQuantizationType.Q8_0:
            kept = _q8_0(_blocks(tensor))
        case GGMLQuantizationType.Q4_0:
            kept = _q4_0(_blocks(tensor))
        case GGMLQuantizationType.Q4_1:
            kept = _q4_1(_blocks(tensor))
        case _:
            kept = None
    return Bf16(round_bfloat16(gguf_float32(tensor))) if kept is None else kept


def _blocks(tensor: ReaderTensor) -> Bytes:
    """[rows, blocks of a row, bytes of a block]"""
    rows, columns = gguf_shape(tensor)
    return np.asarray(tensor.data, dtype=np.uint8).reshape(rows, columns // BLOCK_COLUMNS, -1)


def _q8_0(blocks: Bytes) -> Q8:
    codes = np.ascontiguousarray(blocks[..., 2:]).view(np.int8)
    return Q8(codes.reshape(len(blocks), -1), _float16(blocks, 0))


def _q4_0(blocks: Bytes) -> Q4 | None:
    """None where a minimum is beyond float16."""
    scales = _float16(blocks, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        minimums = scales * np.float16(-8)
    return Q4(_nibbles(blocks[..., 2:]), scales, minimums) if np.isfinite(minimums).all() else None


def _q4_1(blocks: Bytes) -> Q4:
    return Q4(_nibbles(blocks[..., 4:]), _float16(blocks, 0), _float16(blocks, 2))


def _float16(blocks: Bytes, at: int) -> Float16Array:
    return np.ascontiguousarray(blocks[..., at : at + 2]).view(np.float16)[..., 0]


def _nibbles(packed: Bytes) -> Bytes:
    rows, blocks, size = packed.shape
    codes = np.empty((rows, blocks, 2, size), np.uint8)
    np.bitwise_and(packed, 15, out=codes[:, :, 0])
    np.right_shift(packed, 4, out=codes[:, :, 1])
    return codes.reshape(rows, -1)
