"""Which tensors a model of a given shape has: the one list that files are checked against.

A file must hold each of these with this shape. What it holds beside them (rotary tables of old
exports, a copy of tied embeddings) is never asked for.
"""

from collections.abc import Mapping

from common.checkpoint.config import ModelConfig
from common.checkpoint.errors import CheckpointError

Shape = tuple[int, ...]


def tensor_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Hugging Face name -> shape, in the order a forward pass meets them."""
    shapes: dict[str, Shape] = {"model.embed_tokens.weight": (config.vocab, config.hidden)}
    for layer in range(config.layers):
        for name, shape in _layer_shapes(config).items():
            shapes[f"model.layers.{layer}.{name}"] = shape
    shapes["model.norm.weight"] = (config.hidden,)
    if not config.tied_embeddings:
        shapes["lm_head.weight"] = (config.vocab, config.hidden)
    return shapes


def check_shapes(config: ModelConfig, found: Mapping[str, Shape]) -> None:
    for name, shape in tensor_shapes(config).items():
        if name not in found:
            raise CheckpointError(f"tensor {name} is missing")
        if found[name] != shape:
            raise CheckpointError(f"tensor {name} has shape {found[name]}, expected {shape}")


def _layer_shapes(config: ModelConfig) -> dict[str, Shape]:
    hidden, inner = config.hidden, config.intermediate
    q_rows, kv_rows = config.heads * config.head_dim, config.kv_heads * config.head_dim
    attention: dict[str, Shape] = {
        "self_attn.q_proj.weight": (q_rows, hidden),
        "self_attn.k_proj.weight": (kv_rows, hidden),
        "self_attn.v_proj.weight": (kv_rows, hidden),
        "self_attn.o_proj.weight": (hidden, q_rows),
    }
    mlp: dict[str, Shape] = {
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    shapes = {"input_layernorm.weight": (hidden,), **attention}
    if config.attention_bias:
        shapes |= _biases(attention)
    if config.qk_norm:
        shapes |= {f"self_attn.{x}_norm.weight": (config.head_dim,) for x in "qk"}
    shapes |= {"post_attention_layernorm.weight": (hidden,), **mlp}
    if config.mlp_bias:
        shapes |= _biases(mlp)
    return shapes


def _biases(weights: Mapping[str, Shape]) -> dict[str, Shape]:
    return {name.removesuffix("weight") + "bias": shape[:1] for name, shape in weights.items()}
