import pytest

from common.checkpoint.config import LinearScaling, Llama3Scaling
from common.checkpoint.errors import CheckpointError
from common.checkpoint.hf_config import hf_config
from common.checkpoint.metadata import Metadata

LLAMA: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 512,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500_000.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "head_dim": None,
}
LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def read(generation: dict[str, object] | None = None, **changes: object):
    return hf_config(Metadata({**LLAMA, **changes}), Metadata(generation or {}))


def test_defaults_are_those_of_transformers() -> None:
    config = read()
    assert config.head_dim == 16
    assert config.rope_scaling is None
    assert not config.tied_embeddings
    assert not config.attention_bias
    assert read(num_key_value_heads=None).kv_heads == 4
    assert read(rope_theta=None).rope_theta == 10_000.0
    assert read(model_type="qwen3").head_dim == 128
    assert read(model_type="qwen3").qk_norm


@pytest.mark.parametrize(
    "key",
    [
        "model_type",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "vocab_size",
        "max_position_embeddings",
        "rms_norm_eps",
    ],
)
def test_a_missing_key_is_named(key: str) -> None:
    with pytest.raises(CheckpointError, match=f"'{key}' is missing"):
        read(**{key: None})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", "64"),
        ("hidden_size", True),
        ("rms_norm_eps", "small"),
        ("tie_word_embeddings", 1),
        ("model_type", 7),
        ("rope_parameters", []),
        ("eos_token_id", ["x"]),
    ],
)
def test_a_value_of_the_wrong_type_is_named(key: str, value: object) -> None:
    with pytest.raises(CheckpointError, match=key):
        read(**{key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model_type", "gpt_bigcode"),
        ("hidden_act", "gelu"),
        ("use_sliding_window", True),
        ("quantization_config", {"bits": 4}),
        ("partial_rotary_factor", 0.5),
        ("rope_scaling", {"type": "yarn", "factor": 4.0}),
    ],
)
def test_what_would_change_the_arithmetic_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(CheckpointError, match=r"known|GGUF only|whole heads"):
        read(**{key: value})


def test_scaling_is_read_in_its_old_and_new_places() -> None:
    expected = Llama3Scaling(8.0, 1.0, 4.0, 8192)
    assert read(rope_scaling=LLAMA3_SCALING).rope_scaling == expected
    new = read(rope_theta=None, rope_parameters={**LLAMA3_SCALING, "rope_theta": 7.0})
    assert new.rope_scaling == expected
    assert new.rope_theta == 7.0
    assert read(rope_scaling={"type": "linear", "factor": 2}).rope_scaling == LinearScaling(2.0)


def test_end_ids_of_the_generation_config_win() -> None:
    assert read().eos_token_ids == (2,)
    assert read({"eos_token_id": [5, 6]}).eos_token_ids == (5, 6)
    assert read(eos_token_id=None).eos_token_ids == ()
