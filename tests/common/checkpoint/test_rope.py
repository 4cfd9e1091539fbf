from dataclasses import replace

import numpy as np
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
from common.checkpoint.rope import rope_frequencies

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
    values = rope_frequencies(CONFIG)
    assert values[0] == 1.0
    assert values[-1].item() == pytest.approx(500000.0 ** (-62 / 64))
    assert np.allclose(values[1:] / values[:-1], 500000.0 ** (-1 / 32))


def test_linear_scaling_divides_every_frequency() -> None:
    scaled = rope_frequencies(replace(CONFIG, rope_scaling=LinearScaling(4.0)))
    assert np.allclose(scaled * 4, rope_frequencies(CONFIG))


def test_divisors_are_taken_one_by_one() -> None:
    divisors = tuple(1.0 + i for i in range(32))
    scaled = rope_frequencies(replace(CONFIG, rope_scaling=FrequencyDivisors(divisors)))
    assert np.allclose(scaled * np.array(divisors), rope_frequencies(CONFIG))


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
    scaled = rope_frequencies(replace(CONFIG, rope_scaling=scaling))
    assert factor == 1.0
    assert np.allclose(scaled, expected.numpy(), rtol=1e-5)
    ratio = rope_frequencies(CONFIG) / scaled
    assert ratio.min() == 1.0
    assert ratio.max().item() == pytest.approx(32.0)
    assert ((ratio > 1.5) & (ratio < 31)).any()
