"""The attention of one decoder layer: projections, norms of heads, rotation, paged attention."""

from torch import Tensor

from common.checkpoint.config import ModelConfig
from common.model.attention.paged import PagedAttention
from common.model.layers import Linear, RMSNorm
from common.model.rope import Rotation
from common.model.weights import Weights


class SelfAttention:
    def __init__(self, config: ModelConfig, weights: Weights, layer: int) -> None:
        name = f"model.layers.{layer}.self_attn"
        self._layer = layer
        self._head_dim = config.head_dim
        self._query = Linear(weights, f"{name}.q_proj")
        self._key = Linear(weights, f"{name}.k_proj")
        self._value = Linear(weights, f"{name}.v_proj")
        self._output = Linear(weights, f"{name}.o_proj")

    def __call__(self, x: Tensor, rotation: Rotation, attention: PagedAttention) -> Tensor:
        queries, keys = self.normalize(self._heads(self._query(x)), self._heads(self._key(x)))
        values = self._heads(self._value(x))
        mixed = attention.attend(self._layer, rotation(queries), rotation(keys), values)
        return self._output(mixed)

    def normalize(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """What an architecture does to queries and keys before they are rotated."""
        return queries, keys

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(len(x), -1, self._head_dim)


class NormedSelfAttention(SelfAttention):
    """RMS norm over each head of the queries and the keys."""

    def __init__(self, config: ModelConfig, weights: Weights, layer: int) -> None:
        super().__init__(config, weights, layer)
        name = f"model.layers.{layer}.self_attn"
        self._query_norm = RMSNorm(weights, f"{name}.q_norm", config.rms_norm_eps)
        self._key_norm = RMSNorm(weights, f"{name}.k_norm", config.rms_norm_eps)

    def normalize(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        return self._query_norm(queries), self._key_norm(keys)
