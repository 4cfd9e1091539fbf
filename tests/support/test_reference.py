"""The reference itself is held to transformers."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from common.checkpoint.prepared import prepare
from tests.support.default_model import default_cache, default_model
from tests.support.greedy import reference_of
from tests.support.prompts import token_prompt
from tests.support.reference import Reference
from tests.support.tiny_models import VOCAB, tiny_llama, tiny_qwen3

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}


def transformers_logits(folder: Path, tokens: list[int]) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    ids = torch.tensor([tokens])
    with torch.inference_mode():
        return model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0]


def tokens_of(count: int) -> list[int]:
    return np.random.default_rng(3).integers(0, VOCAB, count).tolist()


@pytest.mark.parametrize("make", [tiny_llama, tiny_qwen3])
def test_logits_are_those_of_transformers(
    make: Callable[[Path, int], Path], tmp_path: Path
) -> None:
    folder, tokens = make(tmp_path, 1), tokens_of(70)
    expected = transformers_logits(folder, tokens)
    assert expected.std() > 0.1
    torch.testing.assert_close(
        Reference.from_folder(folder).logits(tokens), expected, atol=1e-3, rtol=0
    )


@pytest.mark.parametrize("rope", [LLAMA3, LINEAR])
def test_scaled_rope_is_that_of_transformers(rope: dict[str, object], tmp_path: Path) -> None:
    folder, tokens = tiny_llama(tmp_path, 1), tokens_of(70)
    config = json.loads((folder / "config.json").read_text())
    plain = Reference.from_folder(folder).logits(tokens)
    (folder / "config.json").write_text(json.dumps(config | {"rope_parameters": rope}))
    scaled = Reference.from_folder(folder).logits(tokens)
    torch.testing.assert_close(scaled, transformers_logits(folder, tokens), atol=1e-3, rtol=0)
    assert (scaled - plain).abs().max() > 0.01


def test_greedy_recomputes_what_it_appended(tmp_path: Path) -> None:
    folder, prompt = tiny_llama(tmp_path, 2), tokens_of(9)
    reference = Reference.from_folder(folder)
    output = reference.greedy_token_by_token(prompt, 6)
    best = reference.logits(prompt + output)[len(prompt) - 1 : -1].argmax(dim=1)
    assert best.tolist() == output


@pytest.mark.cluster
def test_the_default_models_logits_are_those_of_transformers() -> None:
    """The same tensors in both, built from the checkpoint's own numbers."""
    path, cache = default_model(), default_cache()
    prepared = prepare(path, "fp32", cache)
    config = prepared.config
    model = LlamaForCausalLM(
        LlamaConfig(
            hidden_size=config.hidden,
            intermediate_size=config.intermediate,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            head_dim=config.head_dim,
            vocab_size=config.vocab,
            rms_norm_eps=config.rms_norm_eps,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            max_position_embeddings=config.context_tokens,
            tie_word_embeddings=config.tied_embeddings,
            attn_implementation="eager",
        )
    )
    tensors = {name: torch.tensor(array) for name, array in prepared.weights.items()}
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert set(missing) <= {"lm_head.weight"}
    assert not unexpected
    model.tie_weights()
    prompt = token_prompt(200, config.vocab)
    ids = torch.tensor([prompt])
    with torch.inference_mode():
        expected = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0]
    got = reference_of(path, cache).logits(prompt)
    assert (got - expected).abs().max() < 1e-3
