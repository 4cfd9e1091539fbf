from dataclasses import replace

import pytest

from common.checkpoint.config import (
    FrequencyDivisors,
    LinearScaling,
    Llama3Scaling,
    ModelConfig,
    RopeScaling,
)
from common.checkpoint.config_json import config_from_json, config_to_json
from common.checkpoint.errors import CheckpointError
from common.checkpoint.tensor_shapes import check_shapes, tensor_shapes

CONFIG = ModelConfig(
    arch="llama",
    hidden=64,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=16,
    intermediate=128,
    vocab=512,
    context_tokens=4096,
    rope_theta=10_000.0,
    rope_scaling=None,
    rms_norm_eps=1e-5,
    tied_embeddings=True,
    attention_bias=False,
    mlp_bias=False,
    qk_norm=False,
    bos_token_id=1,
    eos_token_ids=(2, 3),
)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"hidden": 0}, "hidden"),
        ({"layers": -1}, "layers"),
        ({"rope_theta": 0.0}, "rope_theta"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps"),
        ({"kv_heads": 3}, "kv_heads"),
        ({"head_dim": 15}, "head_dim"),
        ({"bos_token_id": 512}, "512"),
        ({"eos_token_ids": (-1,)}, "-1"),
        ({"rope_scaling": LinearScaling(0.0)}, "scaling"),
        ({"rope_scaling": Llama3Scaling(8.0, 4.0, 1.0, 8192)}, "scaling"),
        ({"rope_scaling": FrequencyDivisors((1.0,) * 7)}, "8 positive divisors"),
        ({"rope_scaling": FrequencyDivisors((1.0,) * 7 + (0.0,))}, "8 positive divisors"),
    ],
)
def test_a_config_the_engine_could_not_run_is_refused(
    change: dict[str, object], complaint: str
) -> None:
    with pytest.raises(CheckpointError, match=complaint):
        replace(CONFIG, **change)


@pytest.mark.parametrize(
    "scaling",
    [
        None,
        LinearScaling(2.0),
        Llama3Scaling(8.0, 1.0, 4.0, 8192),
        FrequencyDivisors(tuple(1.0 + i / 3 for i in range(8))),
    ],
)
def test_json_gives_the_same_config_back(scaling: RopeScaling | None) -> None:
    config = replace(CONFIG, rope_scaling=scaling)
    assert config_from_json(config_to_json(config)) == config


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rope_scaling_kind": 3}'])
def test_text_that_is_no_config_is_an_error(text: str) -> None:
    with pytest.raises(CheckpointError, match="not a config"):
        config_from_json(text)


def test_a_field_of_another_version_is_an_error() -> None:
    text = config_to_json(CONFIG).replace('"hidden"', '"width"')
    with pytest.raises(CheckpointError, match="not a config"):
        config_from_json(text)


def test_every_layer_has_its_tensors_and_biases_only_where_the_config_says() -> None:
    plain = tensor_shapes(CONFIG)
    assert len(plain) == 2 + 2 * 9
    assert plain["model.layers.1.self_attn.k_proj.weight"] == (32, 64)
    assert plain["model.layers.0.mlp.down_proj.weight"] == (64, 128)
    full = tensor_shapes(
        replace(CONFIG, tied_embeddings=False, attention_bias=True, mlp_bias=True, qk_norm=True)
    )
    assert set(full) - set(plain) == {"lm_head.weight"} | {
        f"model.layers.{layer}.{name}"
        for layer in range(2)
        for name in (
            *(f"self_attn.{x}_proj.bias" for x in "qkvo"),
            *(f"mlp.{x}_proj.bias" for x in ("gate", "up", "down")),
            "self_attn.q_norm.weight",
            "self_attn.k_norm.weight",
        )
    }
    assert full["model.layers.0.self_attn.o_proj.bias"] == (64,)
    assert full["model.layers.0.self_attn.q_norm.weight"] == (16,)


def test_missing_and_misshapen_tensors_are_named() -> None:
    found = tensor_shapes(CONFIG)
    check_shapes(CONFIG, {**found, "rotary.inv_freq": (8,)})
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight has shape \(65,\)"):
        check_shapes(CONFIG, {**found, "model.norm.weight": (65,)})
    del found["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(CheckpointError, match=r"layers\.1\.mlp\.up_proj\.weight is missing"):
        check_shapes(CONFIG, found)
