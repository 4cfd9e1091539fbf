"""The documented sum order of the int8 arithmetic, in numpy: what every CPU level must give.

Within a block of 32 columns the sum of codes times numbers is exact; blocks are scaled and added in
order, with fused multiply-adds: long doubles hold their products, and round once.
"""

import numpy as np
import numpy.typing as npt

from common.checkpoint.stored import Q4, Q8

Float32Array = npt.NDArray[np.float32]
Inputs = npt.NDArray[np.void]
INPUTS = np.dtype(
    [("numbers", np.int8, (2, 16, 64)), ("scales", "<f4", (2, 16)), ("sums", "<f4", (2, 16))]
)
"""Of 64 columns: native/blocks.h."""


def inputs_of(packed: npt.NDArray[np.uint8]) -> tuple[Inputs, int]:
    """Of a packed panel: those of each 64 columns, and how many tokens there are."""
    end = len(packed) // INPUTS.itemsize * INPUTS.itemsize
    return packed[:end].view(INPUTS), int(packed[end : end + 4].view(np.int32)[0])


def block_sum(stored: Q4 | Q8, inputs: Inputs) -> Float32Array:
    """[rows, 16]"""
    rows, columns = stored.codes.shape
    codes = stored.codes.astype(np.int32)
    scales = stored.scales.astype(np.float32)
    if isinstance(stored, Q4):
        minimums = stored.minimums.astype(np.float32)
    else:
        codes, minimums = codes + 128, scales * np.float32(-128)
    total = np.zeros((rows, 16), np.float32)
    for block in range(columns // 32):
        of, which = inputs[block // 2], block % 2
        numbers = of["numbers"][which][:, 32 * which : 32 * which + 32].astype(np.int32)
        sums = (codes[:, 32 * block : 32 * block + 32] @ numbers.T).astype(np.float32)
        total = _fma(sums * scales[:, block, None], of["scales"][which], total)
        total = _fma(minimums[:, block, None], of["sums"][which], total)
    return total


def _fma(a: Float32Array, b: Float32Array, c: Float32Array) -> Float32Array:
    return (a.astype(np.longdouble) * b + c).astype(np.float32)
