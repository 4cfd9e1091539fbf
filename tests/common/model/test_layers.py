import numpy as np
import pytest
import torch

from common.model.layers import Linear, RMSNorm, SwiGLU
from common.model.weights import Weights


def weights_of(**shapes: tuple[int, ...]) -> Weights:
    rng = np.random.default_rng(0)
    arrays = {
        name.replace("__", "."): rng.standard_normal(shape, dtype=np.float32)
        for name, shape in shapes.items()
    }
    return Weights(arrays, torch.device("cpu"))


@pytest.fixture
def x() -> torch.Tensor:
    return torch.tensor(np.random.default_rng(1).standard_normal((5, 8), dtype=np.float32))


def test_linear_adds_the_bias_the_checkpoint_has(x: torch.Tensor) -> None:
    weights = weights_of(a__weight=(3, 8), a__bias=(3,), b__weight=(3, 8))
    plain = x @ weights.tensor("a.weight").T
    assert torch.allclose(Linear(weights, "a")(x), plain + weights.tensor("a.bias"))
    assert torch.allclose(Linear(weights, "b")(x), x @ weights.tensor("b.weight").T)


def test_rms_norm_scales_each_row_to_unit_size(x: torch.Tensor) -> None:
    weights = weights_of(n__weight=(8,))
    normed = RMSNorm(weights, "n", eps=0.5)(x) / weights.tensor("n.weight")
    expected = x / (x.square().mean(dim=1, keepdim=True) + 0.5).sqrt()
    assert torch.allclose(normed, expected, atol=1e-6)


def test_swiglu_gates_with_silu_and_keeps_its_input(x: torch.Tensor) -> None:
    weights = weights_of(
        m__gate_proj__weight=(6, 8), m__up_proj__weight=(6, 8), m__down_proj__weight=(8, 6)
    )
    before = x.clone()
    gate, up, down = (weights.tensor(f"m.{part}_proj.weight") for part in ("gate", "up", "down"))
    expected = ((x @ gate.T) * torch.sigmoid(x @ gate.T) * (x @ up.T)) @ down.T
    assert torch.allclose(SwiGLU(weights, "m")(x), expected, atol=1e-5)
    assert torch.equal(x, before)
