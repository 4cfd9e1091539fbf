"""Rotary position embedding, in the half-rotation form of Hugging Face checkpoints.

Dimension i of a head is paired with dimension i + head_dim / 2, and the pair is turned by
position * frequency_i. Scaled frequencies stretch the context a model was trained on.
"""

import math
from typing import assert_never

import torch
from torch import Tensor

from common.checkpoint.config import (
    FrequencyDivisors,
    LinearScaling,
    Llama3Scaling,
    ModelConfig,
)


def frequencies(config: ModelConfig) -> Tensor:
    """[head_dim / 2] float32: radians a position, scaled as the config says."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    plain = 1.0 / config.rope_theta**exponents
    match config.rope_scaling:
        case None:
            return plain
        case LinearScaling(factor):
            return plain / factor
        case Llama3Scaling() as scaling:
            return _llama3(plain, scaling)
        case FrequencyDivisors(divisors):
            return plain / torch.tensor(divisors, dtype=torch.float32)
        case _:
            assert_never(config.rope_scaling)


def _llama3(plain: Tensor, scaling: Llama3Scaling) -> Tensor:
    """A wave that fits `high_freq_factor` times into the original context is kept, one that fits
    fewer than `low_freq_factor` times is stretched, and those between are blended linearly."""
    turns = scaling.original_context_tokens * plain / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    kept = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return kept * plain + (1.0 - kept) * plain / scaling.factor


class Rotation:
    """Cosines and sines of one step's positions, shared by all its layers."""

    def __init__(self, positions: Tensor, frequencies: Tensor) -> None:
        angles = positions.to(frequencies.dtype)[:, None, None] * frequencies
        self._cos = angles.cos()
        self._sin = angles.sin()

    def __call__(self, heads: Tensor) -> Tensor:
        """[rows, heads, head_dim] to the same shape."""
        first, second = heads.chunk(2, dim=-1)
        turned = (
            first * self._cos - second * self._sin,
            second * self._cos + first * self._sin,
        )
        return torch.cat(turned, dim=-1)
