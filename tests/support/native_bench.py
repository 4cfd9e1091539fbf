"""The native runner on a pool of scattered slots, at any level, with any number of threads."""

from pathlib import Path

import pytest

from common.engine.native_runner import NativeRunner
from common.engine.runner_settings import RunnerSettings
from common.kernels.library import Level, best_level
from tests.support.paged import SLOTS, PagedBench
from tests.support.tiny_models import tiny_llama, tiny_qwen3

NEEDS_NATIVE = pytest.mark.skipif(
    best_level() is Level.NONE,
    reason="the native kernels are not built, or this CPU has no AVX2: make setup",
)


def native_bench(
    path: Path, cache: Path, settings: RunnerSettings, slots: int = SLOTS
) -> PagedBench:
    """Skips the test where the CPU lacks the level."""
    if settings.level != "best" and Level[settings.level.upper()] > best_level():
        pytest.skip(f"this CPU has no {settings.level}")
    return PagedBench(NativeRunner.load(path, cache, settings), slots)


def grouped_llama(folder: Path) -> Path:
    """Three query heads a kv head, tied, with biases, sizes that fill no tile."""
    return tiny_llama(
        folder,
        1,
        hidden_size=108,
        intermediate_size=148,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=64,
        tie_word_embeddings=True,
        attention_bias=True,
        mlp_bias=True,
    )


def wide_qwen3(folder: Path) -> Path:
    """Eight query heads on one kv head of 128 dimensions, normed, untied."""
    return tiny_qwen3(
        folder,
        2,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=1,
        head_dim=128,
        tie_word_embeddings=False,
    )
