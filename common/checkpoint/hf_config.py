"""`config.json` and `generation_config.json` of a Hugging Face folder, as a ModelConfig.

Defaults are those that transformers applies when the key is absent. A key whose value would change
the arithmetic in a way we do not compute is refused here, by name, rather than ignored.
"""

from typing import assert_never

from common.checkpoint.config import Arch, LinearScaling, Llama3Scaling, ModelConfig, RopeScaling
from common.checkpoint.errors import CheckpointError
from common.checkpoint.metadata import Metadata

_QWEN3_HEAD_DIM = 128
_LLAMA_ROPE_THETA = 10_000.0


def hf_config(config: Metadata, generation: Metadata) -> ModelConfig:
    """`generation` may be empty; its end-of-sequence ids win over those of `config`."""
    arch = _arch(config)
    _refuse_unknown_arithmetic(config)
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    eos = generation if generation.has("eos_token_id") else config
    return ModelConfig(
        arch=arch,
        hidden=hidden,
        layers=config.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=config.integer("head_dim", _default_head_dim(arch, hidden, heads)),
        intermediate=config.integer("intermediate_size"),
        vocab=config.integer("vocab_size"),
        context_tokens=config.integer("max_position_embeddings"),
        rope_theta=_rope(config).number(
            "rope_theta", config.number("rope_theta", _LLAMA_ROPE_THETA)
        ),
        rope_scaling=_rope_scaling(_rope(config)),
        rms_norm_eps=config.number("rms_norm_eps"),
        tied_embeddings=config.flag("tie_word_embeddings", default=False),
        attention_bias=config.flag("attention_bias", default=False),
        mlp_bias=config.flag("mlp_bias", default=False),
        qk_norm=arch == "qwen3",
        bos_token_id=config.optional_integer("bos_token_id"),
        eos_token_ids=tuple(eos.integers("eos_token_id")) if eos.has("eos_token_id") else (),
    )


def _arch(config: Metadata) -> Arch:
    match config.text("model_type"):
        case "llama":
            return "llama"
        case "qwen3":
            return "qwen3"
        case other:
            raise CheckpointError(f"key 'model_type' is {other!r}: only llama and qwen3 are known")


def _refuse_unknown_arithmetic(config: Metadata) -> None:
    if (act := config.text("hidden_act", "silu")) != "silu":
        raise CheckpointError(f"key 'hidden_act' is {act!r}: only silu is known")
    if config.flag("use_sliding_window", default=False):
        raise CheckpointError("key 'use_sliding_window' is true: sliding windows are not known")
    if config.has("quantization_config"):
        raise CheckpointError(
            "key 'quantization_config': quantized weights are read from GGUF only"
        )
    if config.number("partial_rotary_factor", 1.0) != 1.0:
        raise CheckpointError("key 'partial_rotary_factor': rope must turn whole heads")


def _default_head_dim(arch: Arch, hidden: int, heads: int) -> int:
    match arch:
        case "qwen3":
            return _QWEN3_HEAD_DIM
        case "llama":
            return hidden // max(heads, 1)
        case _:
            assert_never(arch)


def _rope(config: Metadata) -> Metadata:
    """Newer files keep all of it in `rope_parameters`, older ones the scaling in `rope_scaling`."""
    for key in ("rope_parameters", "rope_scaling"):
        if config.has(key):
            return config.section(key)
    return Metadata({})


def _rope_scaling(rope: Metadata) -> RopeScaling | None:
    match rope.text("rope_type", rope.text("type", "default")):
        case "default":
            return None
        case "linear":
            return LinearScaling(factor=rope.number("factor"))
        case "llama3":
            return Llama3Scaling(
                factor=rope.number("factor"),
                low_freq_factor=rope.number("low_freq_factor"),
                high_freq_factor=rope.number("high_freq_factor"),
                original_context_tokens=rope.integer("original_max_position_embeddings"),
            )
        case other:
            raise CheckpointError(f"rope type {other!r} is not known (default, linear, llama3)")
