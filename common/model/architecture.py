"""From a config to the decoder that runs it, through the table of architectures."""

from importlib import import_module

from common.checkpoint.config import ModelConfig
from common.domain.errors import ServingError
from common.model.archs import ARCHITECTURES
from common.model.decoder import Decoder
from common.model.weights import Weights


def build_decoder(config: ModelConfig, weights: Weights) -> Decoder:
    module, _, name = ARCHITECTURES[config.arch].partition(":")
    decoder = getattr(import_module(module), name)(config, weights)
    if not isinstance(decoder, Decoder):
        raise ServingError(f"{ARCHITECTURES[config.arch]} is no decoder")
    return decoder
