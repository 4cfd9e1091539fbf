"""By what a position turns the pairs of a head: a fact of the checkpoint, in numbers.

Scaled frequencies stretch the context a model was trained on. Computed in float64 and rounded once,
so that every engine turns by the same.
"""

import math
from typing import assert_never

import numpy as np
import numpy.typing as npt

from common.checkpoint.config import (
    FrequencyDivisors,
    LinearScaling,
    Llama3Scaling,
    ModelConfig,
)

Float64Array = npt.NDArray[np.float64]


def rope_frequencies(config: ModelConfig) -> npt.NDArray[np.float32]:
    """[head_dim / 2]: radians a position, scaled as the config says."""
    exponents = np.arange(0, config.head_dim, 2, dtype=np.float64) / config.head_dim
    plain = config.rope_theta**-exponents
    return _scaled(plain, config).astype(np.float32)


def _scaled(plain: Float64Array, config: ModelConfig) -> Float64Array:
    match config.rope_scaling:
        case None:
            return plain
        case LinearScaling(factor):
            return plain / factor
        case Llama3Scaling() as scaling:
            return _llama3(plain, scaling)
        case FrequencyDivisors(divisors):
            return plain / np.array(divisors, dtype=np.float64)
        case _:
            assert_never(config.rope_scaling)


def _llama3(plain: Float64Array, scaling: Llama3Scaling) -> Float64Array:
    """A wave that fits `high_freq_factor` times into the original context is kept, one that fits
    fewer than `low_freq_factor` times is stretched, and those between are blended linearly."""
    turns = scaling.original_context_tokens * plain / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    kept: Float64Array = np.clip((turns - low) / (high - low), 0.0, 1.0)
    stretched: Float64Array = kept * plain + (1.0 - kept) * plain / scaling.factor
    return stretched
