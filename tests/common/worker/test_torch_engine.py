"""A worker with a real model: its card says what must be equal between processes."""

from pathlib import Path

from common.checkpoint.prepared_tokenizer import prepare_tokenizer
from common.engine.torch_runner import TorchRunner
from common.worker.torch_engine import ARITHMETIC, load
from tests.support.tiny_models import CONTEXT_TOKENS, VOCAB, tiny_llama
from tests.support.worker_settings import worker_settings


def test_the_card_is_the_models(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "tiny", 1)
    loaded = load(worker_settings(tmp_path, engine="torch", model=str(folder), block_tokens=16))
    card, runner = loaded.card, loaded.runner
    assert isinstance(runner, TorchRunner)
    assert (card.model, card.arithmetic, card.block_tokens) == ("tiny", ARITHMETIC, 16)
    assert (card.vocab, card.context_tokens) == (VOCAB, CONTEXT_TOKENS)
    assert card.eos_token_ids == runner.eos_token_ids == (2,)
    assert card.weights_digest == runner.weights_digest
    assert card.tokenizer_digest == prepare_tokenizer(folder, tmp_path / "cache").digest
    assert runner.layout.block_tokens == 16


def test_other_weights_are_another_card(tmp_path: Path) -> None:
    cards = [
        load(
            worker_settings(
                tmp_path, engine="torch", model=str(tiny_llama(tmp_path / f"m{seed}", seed))
            )
        ).card
        for seed in (1, 2)
    ]
    assert cards[0].weights_digest != cards[1].weights_digest
