from importlib import import_module
from pathlib import Path

import pytest

from common.engine.bench.backend import (
    BACKENDS,
    Counted,
    RunnerChoice,
    Weighed,
    load_runner,
    peak_flops,
    weight_bytes,
)
from common.engine.mock import MockRunner
from tests.support.bench_rig import tiny_choice


def choice(engine: str = "torch", arithmetic: str = "fp32") -> RunnerChoice:
    return RunnerChoice(engine, arithmetic, 1, Path("model"), Path("cache"))


class Heavy(MockRunner):
    weight_bytes = 77

    def counters(self) -> dict[str, float]:
        return {"attention": 1.0}


def test_a_runner_is_loaded_with_the_settings_of_its_choice(
    tiny_folder: Path, tmp_path: Path
) -> None:
    runner = load_runner(tiny_choice(tiny_folder, tmp_path))
    assert runner.layout.block_tokens == 32


def test_a_runner_that_weighs_itself_is_believed() -> None:
    assert isinstance(Heavy(32), Weighed)
    assert weight_bytes(Heavy(32), choice(), 1000) == 77


def test_else_the_arithmetic_says_how_wide_a_weight_is() -> None:
    mock = MockRunner(32)
    assert weight_bytes(mock, choice("torch", "fp32"), 1000) == 4000
    assert weight_bytes(mock, choice("native", "int8"), 1000) == 1000


def test_counters_are_optional() -> None:
    assert isinstance(Heavy(32), Counted)
    assert not isinstance(MockRunner(32), Counted)


def test_the_probe_of_a_backend_gets_the_thread_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("common.engine.bench.torch_peak.peak_flops", lambda threads: threads * 3.0)
    assert peak_flops(choice()) == 3.0


@pytest.mark.parametrize("name", list(BACKENDS))
def test_the_places_of_a_backend_are_there(name: str) -> None:
    backend = BACKENDS[name]
    for place in (backend.runner, backend.settings, backend.peak):
        module, name = place.split(":")
        assert hasattr(import_module(module), name)
