"""Which tensors of a checkpoint the native kernels multiply with at once.

The kernels' names of matrices and vectors, the Hugging Face tensors each consists of, and how those
are joined. Gate and up alternate in strips of 16 rows, so that one pass over a matrix finds both
factors of a feed-forward row; each is padded to whole strips for that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.checkpoint.config import ModelConfig
from common.checkpoint.stored import Q4, Q8, Array, Bf16, StoredTensor, as_bfloat16
from common.kernels.packed_matrix import STRIP_ROWS, padded_rows


@dataclass(frozen=True, slots=True)
class Fused:
    parts: tuple[str, ...]
    """Tensors, in order."""
    interleaved: bool = False
    """Strip by strip instead of one after another."""
    padded: bool = False
    """A vector with the rows of a matrix, padding included."""

    def join(self, arrays: Sequence[Array]) -> Array:
        """Of the parts' arrays, rows first."""
        if self.interleaved:
            joined = _interleave(arrays)
        else:
            joined = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        return _pad(joined, padded_rows(len(joined))) if self.padded else joined

    def join_stored(self, parts: Sequence[StoredTensor]) -> StoredTensor:
        """bfloat16 where the parts are of different kinds."""
        if all(isinstance(part, Q8) for part in parts):
            q8 = [part for part in parts if isinstance(part, Q8)]
            return Q8(self.join([p.codes for p in q8]), self.join([p.scales for p in q8]))
        if all(isinstance(part, Q4) for part in parts):
            q4 = [part for part in parts if isinstance(part, Q4)]
            return Q4(
                self.join([p.codes for p in q4]),
                self.join([p.scales for p in q4]),
                self.join([p.minimums for p in q4]),
            )
        return Bf16(self.join([as_bfloat16(part).codes for part in parts]))


def fused_matrices(config: ModelConfig) -> dict[str, Fused]:
    """In the order a step meets them."""
    matrices: dict[str, Fused] = {}
    if not config.tied_embeddings:
        matrices["embedding"] = Fused(("model.embed_tokens.weight",))
    for layer in range(config.layers):
        matrices |= _projections(layer, "weight")
    head = "model.embed_tokens.weight" if config.tied_embeddings else "lm_head.weight"
    matrices["head"] = Fused((head,))
    return matrices


def fused_vectors(config: ModelConfig) -> dict[str, Fused]:
    vectors: dict[str, Fused] = {}
    for layer in range(config.layers):
        ours, theirs = f"layers.{layer}", f"model.layers.{layer}"
        vectors[f"{ours}.input_norm"] = Fused((f"{theirs}.input_layernorm.weight",))
        vectors[f"{ours}.post_norm"] = Fused((f"{theirs}.post_attention_layernorm.weight",))
        if config.qk_norm:
            for head in "qk":
                vectors[f"{ours}.{head}_norm"] = Fused((f"{theirs}.self_attn.{head}_norm.weight",))
        for name, biases in _projections(layer, "bias").items():
            of_mlp = name.endswith((".gate_up", ".down"))
            if config.mlp_bias if of_mlp else config.attention_bias:
                vectors[f"{name}.bias"] = Fused(biases.parts, biases.interleaved, padded=True)
    vectors["norm"] = Fused(("model.norm.weight",))
    return vectors


def _projections(layer: int, what: str) -> dict[str, Fused]:
    ours, theirs = f"layers.{layer}", f"model.layers.{layer}"
    attention, mlp = f"{theirs}.self_attn", f"{theirs}.mlp"
    return {
        f"{ours}.qkv": Fused(tuple(f"{attention}.{x}_proj.{what}" for x in "qkv")),
        f"{ours}.output": Fused((f"{attention}.o_proj.{what}",)),
        f"{ours}.gate_up": Fused(
            (f"{mlp}.gate_proj.{what}", f"{mlp}.up_proj.{what}"), interleaved=True
        ),
        f"{ours}.down": Fused((f"{mlp}.down_proj.{what}",)),
    }


def _interleave(arrays: Sequence[Array]) -> Array:
    height = -(-len(arrays[0]) // STRIP_ROWS) * STRIP_ROWS
    strips = [_pad(a, height).reshape(-1, STRIP_ROWS, *a.shape[1:]) for a in arrays]
    return np.stack(strips, axis=1).reshape(-1, *arrays[0].shape[1:])


def _pad(rows: Array, height: int) -> Array:
    if len(rows) == height:
        return rows
    return np.pad(rows, [(0, height - len(rows))] + [(0, 0)] * (rows.ndim - 1))
