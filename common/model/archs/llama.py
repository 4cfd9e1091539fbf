"""Llama and what is built like it (SmolLM2, Mistral without a window): grouped attention, SwiGLU.

Biases of the attention and feed-forward projections are used where the checkpoint has them.
"""

from common.checkpoint.config import ModelConfig
from common.model.attention.heads import SelfAttention
from common.model.decoder import Decoder
from common.model.layers import SwiGLU
from common.model.weights import Weights


class Llama(Decoder):
    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        super().__init__(config, weights, attention=SelfAttention, feed_forward=SwiGLU)
