"""A worker with a real model in torch."""

from common.checkpoint.default_model import model_name, resolve_model
from common.checkpoint.prepared_tokenizer import prepare_tokenizer
from common.domain.card import ModelCard
from common.engine.runner_settings import RunnerSettings
from common.engine.torch_runner import TorchRunner
from common.worker.engines import Loaded
from common.worker.settings import WorkerSettings

ARITHMETIC = "fp32"


def load(settings: WorkerSettings) -> Loaded:
    cache = settings.cache.expanduser()
    path = resolve_model(settings.model, cache)
    runner = TorchRunner.load(
        path,
        cache,
        RunnerSettings(settings.block_tokens, settings.threads, settings.device, ARITHMETIC),
    )
    card = ModelCard(
        model=model_name(path),
        weights_digest=runner.weights_digest,
        tokenizer_digest=prepare_tokenizer(path, cache).digest,
        arithmetic=ARITHMETIC,
        block_tokens=settings.block_tokens,
        context_tokens=runner.context_tokens,
        vocab=runner.vocab,
        eos_token_ids=runner.eos_token_ids,
    )
    return Loaded(runner, card)
