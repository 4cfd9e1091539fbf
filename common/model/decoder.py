"""What all our architectures are: embedding, pre-norm decoder layers, final norm, head.

An architecture says which attention and which feed-forward its layers have; everything a step
needs to know about sequences is in the `PagedAttention` it is given, so rows never meet elsewhere.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from common.checkpoint.config import ModelConfig
from common.checkpoint.rope import rope_frequencies
from common.model.attention.heads import SelfAttention
from common.model.attention.paged import PagedAttention
from common.model.layers import RMSNorm
from common.model.rope import Rotation
from common.model.weights import Weights

AttentionOf = Callable[[ModelConfig, Weights, int], SelfAttention]
"""The attention of one layer, by its index."""
FeedForward = Callable[[Tensor], Tensor]
FeedForwardOf = Callable[[Weights, str], FeedForward]
"""The feed-forward of one layer, by the name its tensors start with."""


class DecoderLayer:
    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        index: int,
        attention: AttentionOf,
        feed_forward: FeedForwardOf,
    ) -> None:
        name, eps = f"model.layers.{index}", config.rms_norm_eps
        self._attention_norm = RMSNorm(weights, f"{name}.input_layernorm", eps)
        self._attention = attention(config, weights, index)
        self._feed_forward_norm = RMSNorm(weights, f"{name}.post_attention_layernorm", eps)
        self._feed_forward = feed_forward(weights, f"{name}.mlp")

    def __call__(self, x: Tensor, rotation: Rotation, attention: PagedAttention) -> Tensor:
        x = x + self._attention(self._attention_norm(x), rotation, attention)
        return x + self._feed_forward(self._feed_forward_norm(x))


class Decoder:
    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        attention: AttentionOf,
        feed_forward: FeedForwardOf,
    ) -> None:
        self._embedding = weights.tensor("model.embed_tokens.weight")
        turns = torch.from_numpy(rope_frequencies(config))
        self._frequencies = turns.to(self._embedding.device)
        self._layers = [
            DecoderLayer(config, weights, index, attention, feed_forward)
            for index in range(config.layers)
        ]
        self._norm = RMSNorm(weights, "model.norm", config.rms_norm_eps)
        self._head = self._embedding if config.tied_embeddings else weights.tensor("lm_head.weight")

    @torch.inference_mode()
    def forward(
        self, tokens: Tensor, positions: Tensor, rows: Tensor, attention: PagedAttention
    ) -> Tensor:
        """Logits [len(rows), vocab] of the wanted rows. Tokens and positions are [rows] int64."""
        x = F.embedding(tokens, self._embedding)
        rotation = Rotation(positions, self._frequencies)
        for layer in self._layers:
            x = layer(x, rotation, attention)
        return F.linear(self._norm(x.index_select(0, rows)), self._head)
