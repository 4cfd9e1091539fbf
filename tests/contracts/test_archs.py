"""Every architecture of the table computes what the reference computes, however it is fed."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from common.model.archs import ARCHITECTURES
from tests.support.paged import torch_bench
from tests.support.reference import Reference
from tests.support.tiny_models import VOCAB, tiny_llama, tiny_qwen3

TINY_MODELS: Mapping[str, Callable[[Path, int], Path]] = {
    "llama": tiny_llama,
    "qwen3": tiny_qwen3,
}
"""A newcomer to the table needs a line here, or its tests fail."""
LENGTH = 150


@pytest.fixture(scope="module", params=sorted(ARCHITECTURES))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TINY_MODELS[request.param](tmp_path_factory.mktemp(request.param), 1)


@pytest.fixture(scope="module")
def reference(folder: Path) -> Reference:
    return Reference.from_folder(folder)


def tokens_of(count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCAB, count).tolist()


def assert_same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("block_tokens", [16, 32, 64])
def test_a_whole_prompt_gives_the_logits_of_the_reference(
    folder: Path, reference: Reference, tmp_path: Path, block_tokens: int
) -> None:
    bench = torch_bench(folder, tmp_path, block_tokens)
    tokens = tokens_of(LENGTH)
    logits = bench.forward([(bench.sequence(LENGTH), tokens)])
    assert logits.dtype == torch.float32
    assert_same(logits, reference.logits(tokens))


@pytest.mark.parametrize("chunk", [1, 7, 16, 64])
def test_chunks_give_the_logits_of_the_whole(
    folder: Path, reference: Reference, tmp_path: Path, chunk: int
) -> None:
    bench = torch_bench(folder, tmp_path)
    tokens = tokens_of(LENGTH)
    cached = bench.sequence(LENGTH)
    parts = [
        bench.forward([(cached, tokens[start : start + chunk])])
        for start in range(0, LENGTH, chunk)
    ]
    assert_same(torch.cat(parts), reference.logits(tokens))


def test_a_batch_of_decodes_and_chunks_gives_each_its_own_logits(
    folder: Path, reference: Reference, tmp_path: Path
) -> None:
    bench = torch_bench(folder, tmp_path)
    before = (33, 0, 64, 40, 128, 31, 32)
    now = (1, 20, 1, 9, 1, 1, 70)
    prompts = [tokens_of(b + n, seed) for seed, (b, n) in enumerate(zip(before, now, strict=True))]
    sequences = [bench.sequence(len(prompt)) for prompt in prompts]
    for cached, prompt, count in zip(sequences, prompts, before, strict=True):
        if count:
            bench.forward([(cached, prompt[:count])])
    parts = [
        (cached, prompt[count:])
        for cached, prompt, count in zip(sequences, prompts, before, strict=True)
    ]
    logits = bench.forward(parts).split(now)
    for part, prompt, count in zip(logits, prompts, before, strict=True):
        assert_same(part, reference.logits(prompt)[count:])


def test_greedy_ids_are_those_of_full_recomputation(
    folder: Path, reference: Reference, tmp_path: Path
) -> None:
    bench = torch_bench(folder, tmp_path, block_tokens=16)
    prompts = [tokens_of(count, seed) for seed, count in enumerate((5, 16, 45))]
    sequences = [bench.sequence(len(prompt) + 24) for prompt in prompts]
    fresh = prompts
    outputs: list[list[int]] = [[] for _ in prompts]
    for _ in range(24):
        logits = bench.forward(list(zip(sequences, fresh, strict=True)))
        last = np.cumsum([len(tokens) for tokens in fresh]) - 1
        fresh = [[int(logits[row].argmax())] for row in last]
        outputs = [output + tokens for output, tokens in zip(outputs, fresh, strict=True)]
    assert outputs == [reference.greedy_token_by_token(prompt, 24) for prompt in prompts]
