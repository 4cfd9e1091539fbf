import pytest

from common.checkpoint.config import FrequencyDivisors, LinearScaling, ModelConfig
from common.checkpoint.errors import CheckpointError
from common.checkpoint.gguf_config import gguf_config
from common.checkpoint.metadata import Metadata

LLAMA: dict[str, object] = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.context_length": 4096,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 128,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 100_000.0,
    "tokenizer.ggml.eos_token_id": 2,
}


def read(
    changes: dict[str, object] | None = None,
    tensors: tuple[str, ...] = (),
    divisors: tuple[float, ...] | None = None,
) -> ModelConfig:
    return gguf_config(Metadata({**LLAMA, **(changes or {})}), tensors, 512, divisors)


def test_facts_without_a_key_follow_from_the_tensors() -> None:
    assert read().tied_embeddings
    assert not read(tensors=("output.weight",)).tied_embeddings
    assert read(tensors=("blk.0.attn_q.bias",)).attention_bias
    assert read(tensors=("blk.0.ffn_gate.bias",)).mlp_bias
    assert read(divisors=(2.0,) * 8).rope_scaling == FrequencyDivisors((2.0,) * 8)


def test_head_dim_is_the_key_length_where_it_is_given() -> None:
    assert read().head_dim == 16
    assert (
        read({"llama.attention.key_length": 32, "llama.attention.value_length": 32}).head_dim == 32
    )


def test_linear_scaling_is_read() -> None:
    scaled = read({"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0})
    assert scaled.rope_scaling == LinearScaling(4.0)


def test_every_kind_of_end_ends() -> None:
    ids = {"tokenizer.ggml.eot_token_id": 7, "tokenizer.ggml.eom_token_id": 2}
    assert read(ids).eos_token_ids == (2, 7)


@pytest.mark.parametrize("key", [key for key in LLAMA if "kv" not in key and "llama." in key])
def test_a_missing_key_is_named_unless_it_has_a_default(key: str) -> None:
    if key == "llama.rope.freq_base":
        assert read({key: None}).rope_theta == 10_000.0
        return
    with pytest.raises(CheckpointError, match=f"'{key}' is missing"):
        read({key: None})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("general.architecture", "mamba"),
        ("llama.expert_count", 8),
        ("llama.attention.sliding_window", 4096),
        ("llama.rope.dimension_count", 8),
        ("llama.attention.value_length", 8),
        ("split.count", 2),
        ("llama.rope.scaling.type", "yarn"),
    ],
)
def test_what_would_change_the_arithmetic_is_refused(key: str, value: object) -> None:
    with pytest.raises(CheckpointError, match="known"):
        read({key: value})
