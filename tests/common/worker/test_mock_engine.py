"""A worker with the mock model spends the time it is told to."""

from pathlib import Path

import numpy as np
import pytest

from common.engine.mock import EOS, VOCAB
from common.engine.runner import Batch
from common.worker.mock_engine import MOCK_CONTEXT_TOKENS, load, mock_card
from tests.support.worker_settings import worker_settings


def batch_of(*counts: int) -> Batch:
    rows = sum(counts)
    return Batch(
        tokens=np.full(rows, 65),
        positions=np.concatenate([np.arange(count) for count in counts]),
        starts=np.cumsum([0, *counts], dtype=np.int32),
        tables=[np.array([slot], dtype=np.int32) for slot in range(len(counts))],
        rows=np.array([], dtype=np.int64),
        draws=[],
    )


@pytest.mark.parametrize(
    ("counts", "expected_us"), [((10,), 5_000), ((1, 1), 20_000), ((10, 1), 25_000)]
)
def test_prompts_cost_by_the_token_and_decodes_by_the_step(
    counts: tuple[int, ...],
    expected_us: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("common.worker.mock_engine.time.sleep", slept.append)
    settings = worker_settings(tmp_path, mock_prefill_us=500, mock_decode_us=20_000)
    runner = load(settings).runner
    size = runner.layout.block_bytes
    runner.bind(memoryview(bytearray(4 * size)), 4, size)
    runner.step(batch_of(*counts))
    assert slept == [pytest.approx(expected_us * 1e-6)]


def test_its_card_is_its_runners(tmp_path: Path) -> None:
    loaded = load(worker_settings(tmp_path, block_tokens=16))
    assert loaded.card == mock_card(16)
    assert (loaded.card.vocab, loaded.card.eos_token_ids) == (VOCAB, (EOS,))
    assert loaded.runner.context_tokens == loaded.card.context_tokens == MOCK_CONTEXT_TOKENS
