from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from common.checkpoint.prepared import prepare
from common.model.architecture import build_decoder
from common.model.archs.llama import Llama
from common.model.archs.qwen3 import Qwen3
from common.model.decoder import Decoder
from common.model.weights import Weights
from tests.support.tiny_models import tiny_llama, tiny_qwen3


@pytest.mark.parametrize(("make", "decoder"), [(tiny_llama, Llama), (tiny_qwen3, Qwen3)])
def test_a_config_builds_the_decoder_of_its_architecture(
    make: Callable[[Path, int], Path], decoder: type[Decoder], tmp_path: Path
) -> None:
    prepared = prepare(make(tmp_path / "model", 1), "fp32", tmp_path)
    weights = Weights(prepared.weights, torch.device("cpu"))
    assert type(build_decoder(prepared.config, weights)) is decoder
