"""A worker with the mock model, spending time as it is told to."""

import time

from common.domain.card import ModelCard
from common.engine.mock import EOS, VOCAB, MockRunner
from common.worker.engines import Loaded
from common.worker.settings import WorkerSettings

MOCK_CONTEXT_TOKENS = 8192


def mock_card(block_tokens: int) -> ModelCard:
    return ModelCard(
        "mock", "mock", "mock", "mock", block_tokens, MOCK_CONTEXT_TOKENS, VOCAB, (EOS,)
    )


def load(settings: WorkerSettings) -> Loaded:
    def pause(prefill_rows: int, decode_rows: int) -> None:
        spent_us = settings.mock_prefill_us * prefill_rows
        spent_us += settings.mock_decode_us if decode_rows else 0
        time.sleep(spent_us * 1e-6)

    runner = MockRunner(settings.block_tokens, MOCK_CONTEXT_TOKENS, pause)
    return Loaded(runner, mock_card(settings.block_tokens))
