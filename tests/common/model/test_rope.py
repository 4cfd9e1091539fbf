import math
from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from common.checkpoint.config import (
    FrequencyDivisors,
    LinearScaling,
    Llama3Scaling,
    ModelConfig,
)
from common.model.rope import Rotation, frequencies

CONFIG = ModelConfig(
    arch="llama",
    hidden=64,
    layers=1,
    heads=4,
    kv_heads=2,
    head_dim=64,
    intermediate=64,
    vocab=32,
    context_tokens=131072,
    rope_theta=500000.0,
    rope_scaling=None,
    rms_norm_eps=1e-5,
    tied_embeddings=True,
    attention_bias=False,
    mlp_bias=False,
    qk_norm=False,
    bos_token_id=None,
    eos_token_ids=(2,),
)


def test_plain_frequencies_fall_from_one_by_a_constant_ratio() -> None:
    values = frequencies(CONFIG)
    assert values[0] == 1.0
    assert values[-1].item() == pytest.approx(500000.0 ** (-62 / 64))
    assert torch.allclose(values[1:] / values[:-1], torch.tensor(500000.0 ** (-1 / 32)))


def test_linear_scaling_divides_every_frequency() -> None:
    scaled = frequencies(replace(CONFIG, rope_scaling=LinearScaling(4.0)))
    assert torch.allclose(scaled * 4, frequencies(CONFIG))


def test_divisors_are_taken_one_by_one() -> None:
    divisors = tuple(1.0 + i for i in range(32))
    scaled = frequencies(replace(CONFIG, rope_scaling=FrequencyDivisors(divisors)))
    assert torch.allclose(scaled * torch.tensor(divisors), frequencies(CONFIG))


def test_llama3_scaling_is_that_of_transformers() -> None:
    parameters = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    config = LlamaConfig(
        head_dim=64, max_position_embeddings=131072, rope_parameters=dict(parameters)
    )
    expected, factor = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    scaling = Llama3Scaling(32.0, 1.0, 4.0, 8192)
    scaled = frequencies(replace(CONFIG, rope_scaling=scaling))
    assert factor == 1.0
    assert torch.allclose(scaled, expected, rtol=1e-5)
    ratio = frequencies(CONFIG) / scaled
    assert ratio.min() == 1.0
    assert ratio.max().item() == pytest.approx(32.0)
    assert ((ratio > 1.5) & (ratio < 31)).any()


def test_a_pair_is_turned_by_position_times_frequency() -> None:
    rotation = Rotation(torch.tensor([0, 3]), torch.tensor([0.5, 0.1]))
    heads = torch.tensor([1.0, 1.0, 0.0, 0.0]).expand(2, 1, 4)
    turned = rotation(heads)
    assert turned[0, 0].tolist() == [1.0, 1.0, 0.0, 0.0]
    expected = [math.cos(1.5), math.cos(0.3), math.sin(1.5), math.sin(0.3)]
    assert turned[1, 0].tolist() == pytest.approx(expected)
