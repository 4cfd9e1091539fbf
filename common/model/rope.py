"""Rotary position embedding, in the half-rotation form of Hugging Face checkpoints.

Dimension i of a head is paired with dimension i + head_dim / 2, and the pair is turned by
position * frequency_i.
"""

import torch
from torch import Tensor


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
