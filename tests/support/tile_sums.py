"""The documented sum order of bf16 tile products, in numpy: what every CPU level must give.

Within 32 columns the even and the odd ones are summed apart, from zero, in order; the two sums are
added, and that to the result. A product of two bfloat16 values is exact in float32, so multiplying
and adding in float32 rounds where a fused multiply-add does.
"""

import numpy as np
import numpy.typing as npt

from common.checkpoint.safetensors_file import widen_bfloat16
from common.checkpoint.stored import round_bfloat16

Float32Array = npt.NDArray[np.float32]
Codes = npt.NDArray[np.uint16]

LANES = 16


def tile_sum(weights: Float32Array, values: Float32Array) -> Float32Array:
    """[rows, columns] times [columns, lanes]; columns are a multiple of 32."""
    total = np.zeros((len(weights), values.shape[1]), np.float32)
    for tile in range(0, weights.shape[1], 32):
        even, odd = np.zeros_like(total), np.zeros_like(total)
        for column in range(tile, tile + 32, 2):
            even += weights[:, column, None] * values[column]
            odd += weights[:, column + 1, None] * values[column + 1]
        total += even + odd
    return total


def bfloat16(values: npt.NDArray[np.floating]) -> Float32Array:
    """Rounded, as float32."""
    return widen_bfloat16(round_bfloat16(values.astype(np.float32)))


def in_pairs(panel: Float32Array) -> Codes:
    """[columns, lanes] -> bfloat16 [columns / 2, lanes, 2], rounded."""
    codes = round_bfloat16(panel)
    return np.ascontiguousarray(codes.reshape(-1, 2, codes.shape[1]).swapaxes(1, 2))


def random_panel(features: int, seed: int) -> Float32Array:
    """[features, 16]: each lane of another magnitude."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(features, LANES)) * 2.0 ** rng.integers(-8, 8, LANES)).astype(
        np.float32
    )
