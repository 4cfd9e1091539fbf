"""The metadata of a GGUF file, as a ModelConfig.

Some facts stand in no key: whether embeddings are tied and whether projections have biases follows
from which tensors exist, and Llama 3 rope scaling is a tensor of divisors. `gguf_config` takes them
as arguments so that it needs no file.
"""

from collections.abc import Collection

from common.checkpoint.config import (
    Arch,
    FrequencyDivisors,
    LinearScaling,
    ModelConfig,
    RopeScaling,
)
from common.checkpoint.errors import CheckpointError
from common.checkpoint.metadata import Metadata

_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
_DEFAULT_ROPE_THETA = 10_000.0


def gguf_config(
    metadata: Metadata, tensors: Collection[str], vocab: int, divisors: tuple[float, ...] | None
) -> ModelConfig:
    """`tensors` are the file's own names; `divisors` the values of `rope_freqs.weight`."""
    arch = _arch(metadata)
    hidden = metadata.integer(f"{arch}.embedding_length")
    heads = metadata.integer(f"{arch}.attention.head_count")
    head_dim = metadata.integer(f"{arch}.attention.key_length", hidden // max(heads, 1))
    _refuse_unknown_arithmetic(metadata, arch, head_dim)
    return ModelConfig(
        arch=arch,
        hidden=hidden,
        layers=metadata.integer(f"{arch}.block_count"),
        heads=heads,
        kv_heads=metadata.integer(f"{arch}.attention.head_count_kv", heads),
        head_dim=head_dim,
        intermediate=metadata.integer(f"{arch}.feed_forward_length"),
        vocab=vocab,
        context_tokens=metadata.integer(f"{arch}.context_length"),
        rope_theta=metadata.number(f"{arch}.rope.freq_base", _DEFAULT_ROPE_THETA),
        rope_scaling=_rope_scaling(metadata, arch, divisors),
        rms_norm_eps=metadata.number(f"{arch}.attention.layer_norm_rms_epsilon"),
        tied_embeddings="output.weight" not in tensors,
        attention_bias="blk.0.attn_q.bias" in tensors,
        mlp_bias="blk.0.ffn_gate.bias" in tensors,
        qk_norm=arch == "qwen3",
        bos_token_id=metadata.optional_integer("tokenizer.ggml.bos_token_id"),
        eos_token_ids=_end_ids(metadata),
    )


def _arch(metadata: Metadata) -> Arch:
    match metadata.text("general.architecture"):
        case "llama":
            return "llama"
        case "qwen3":
            return "qwen3"
        case other:
            raise CheckpointError(
                f"key 'general.architecture' is {other!r}: only llama and qwen3 are known"
            )


def _refuse_unknown_arithmetic(metadata: Metadata, arch: Arch, head_dim: int) -> None:
    for key, only in (
        (f"{arch}.expert_count", 0),
        (f"{arch}.attention.sliding_window", 0),
        (f"{arch}.rope.dimension_count", head_dim),
        (f"{arch}.attention.value_length", head_dim),
        ("split.count", 1),
    ):
        if (value := metadata.integer(key, only)) not in (only, 0):
            raise CheckpointError(f"key {key!r} is {value}: only {only} is known")


def _rope_scaling(
    metadata: Metadata, arch: Arch, divisors: tuple[float, ...] | None
) -> RopeScaling | None:
    match metadata.text(f"{arch}.rope.scaling.type", "none"):
        case "none":
            return None if divisors is None else FrequencyDivisors(divisors)
        case "linear":
            return LinearScaling(metadata.number(f"{arch}.rope.scaling.factor"))
        case other:
            raise CheckpointError(f"rope scaling type {other!r} is not known (none, linear)")


def _end_ids(metadata: Metadata) -> tuple[int, ...]:
    keys = [f"tokenizer.ggml.{key}" for key in _END_KEYS]
    return tuple(dict.fromkeys(metadata.integer(key) for key in keys if metadata.has(key)))
