"""The layers decoders are built from. Each takes its own tensors out of a `Weights` by name.

Activations are [rows, features]: the rows of all sequences of a step lie end to end, and nothing
here mixes rows.
"""

import torch.nn.functional as F
from torch import Tensor

from common.model.weights import Weights


class Linear:
    """x W^T, plus the bias where the checkpoint has one."""

    def __init__(self, weights: Weights, name: str) -> None:
        self._weight = weights.tensor(f"{name}.weight")
        self._bias = weights.optional(f"{name}.bias")

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self._weight, self._bias)


class RMSNorm:
    """Over the last axis, whatever stands before it."""

    def __init__(self, weights: Weights, name: str, eps: float) -> None:
        self._weight = weights.tensor(f"{name}.weight")
        self._eps = eps

    def __call__(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self._weight.shape, self._weight, self._eps)


class SwiGLU:
    """down(silu(gate(x)) * up(x))"""

    def __init__(self, weights: Weights, name: str) -> None:
        self._gate = Linear(weights, f"{name}.gate_proj")
        self._up = Linear(weights, f"{name}.up_proj")
        self._down = Linear(weights, f"{name}.down_proj")

    def __call__(self, x: Tensor) -> Tensor:
        return self._down(F.silu(self._gate(x), inplace=True).mul_(self._up(x)))
