import argparse
from pathlib import Path

import pytest

from common.engine.bench.options import add_engine_options, cache_folder, runner_choice


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_engine_options(parser)
    return parser.parse_args(arguments)


def test_the_arithmetic_is_the_engines_first_unless_named(tmp_path: Path) -> None:
    model = f"--model={tmp_path}"
    assert runner_choice(options(model, "--engine=torch"), 1).arithmetic == "fp32"
    assert runner_choice(options(model), 1).arithmetic == "bf16"
    named = options(model, "--arithmetic=int8")
    assert runner_choice(named, 1).arithmetic == "int8"


def test_model_and_cache_come_from_the_environment_unless_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWINFLEET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TWINFLEET_MODEL", str(tmp_path))
    choice = runner_choice(options(), 3)
    assert (choice.model, choice.cache, choice.threads) == (tmp_path, cache_folder(), 3)
    assert choice.cache == tmp_path / "cache"


def test_an_unknown_engine_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options("--engine=steam")
    assert "native" in capsys.readouterr().err
