"""Qwen3, dense: Llama with a norm over each head of queries and keys, and its own head size."""

from common.checkpoint.config import ModelConfig
from common.model.attention.heads import NormedSelfAttention
from common.model.decoder import Decoder
from common.model.layers import SwiGLU
from common.model.weights import Weights


class Qwen3(Decoder):
    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        super().__init__(config, weights, attention=NormedSelfAttention, feed_forward=SwiGLU)
