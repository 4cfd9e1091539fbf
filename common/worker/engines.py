"""Which runners there are. Lazy, so that a mock worker never imports torch."""

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from common.domain.card import ModelCard
from common.engine.runner import Runner
from common.worker.settings import WorkerSettings

ENGINES = {
    "auto": "common.worker.auto_engine:load",
    "native": "common.worker.native_engine:load",
    "torch": "common.worker.torch_engine:load",
    "mock": "common.worker.mock_engine:load",
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A runner and what it serves; `card.context_tokens` is the model's own limit."""

    runner: Runner
    card: ModelCard


def load_engine(settings: WorkerSettings) -> Loaded:
    # Read once, when OpenMP is loaded. Its threads otherwise spin while they wait for each other,
    # and on a host where the other roles run as well that takes the core they are waiting for.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    return load_named(settings.engine, settings)


def load_named(engine: str, settings: WorkerSettings) -> Loaded:
    """`engine` is one of ENGINES, whatever the settings say."""
    module, name = ENGINES[engine].split(":")
    load: Callable[[WorkerSettings], Loaded] = getattr(importlib.import_module(module), name)
    return load(settings)
