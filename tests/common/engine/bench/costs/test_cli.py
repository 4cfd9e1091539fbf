import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from common.engine.bench.costs import cli
from common.engine.bench.costs.child import CONDITIONS
from common.engine.bench.costs.law_fit import Sample
from common.engine.bench.costs.step_costs import Outside, read_costs
from common.engine.bench.costs.step_law import DecodePrices, PromptPrices, StepLaw, decode_shape
from common.engine.bench.costs.steps import QUICK_FITTED, QUICK_JUDGED
from common.engine.bench.spec import Spec

LAW = StepLaw(
    PromptPrices(10.0, 0.2, 1e-4),
    DecodePrices(12.0, 0.1, 3e-3),
    DecodePrices(12.0, 0.1, 3e-3),
    2,
    8.0,
)


def measured() -> dict[str, Any]:
    fit, judge = ([LAW.ms(step.shape) for step in steps] for steps in (QUICK_FITTED, QUICK_JUDGED))
    slower = {"alone": 1.0, "beside_prompts": 1.5, "beside_decodes": 1.2}
    assert slower.keys() == CONDITIONS.keys()
    return {
        "arithmetic": "bf16",
        "level": None,
        "threads": 1,
        "token_bytes": 23040,
        "load_average": [0.1, 0.2],
        "rounds": 1,
        "outside_ms": {"1": 0.3, "16": 0.6},
        "fitted": {name: [by * ms for ms in fit] for name, by in slower.items()},
        "judged": {name: [by * ms for ms in judge] for name, by in slower.items()},
    }


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Spec]:
    specs: list[Spec] = []

    def run(command: list[str], **_: Any) -> Any:
        assert command[:3] == [sys.executable, "-m", "common.engine.bench.costs.child"]
        specs.append(Spec.from_json(command[3]))
        out = f"a library talks\n{json.dumps(measured())}\n"
        return subprocess.CompletedProcess(command, 0, stdout=out)

    monkeypatch.setattr(cli.subprocess, "run", run)
    monkeypatch.setattr(cli, "revision", lambda: {"commit": "abc", "modified": False})
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    return specs


def test_the_file_holds_the_laws_and_can_be_read(
    told: list[Spec],
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TWINFLEET_CACHE", str(tmp_path))
    place = tmp_path / "costs.json"
    assert cli.main(["--model", str(tiny_folder), "--quick", "--json", str(place)]) == 0
    assert [(spec.choice.threads, spec.quick) for spec in told] == [(1, True)]
    result = json.loads(place.read_text())
    assert result["slowdown"]["beside_prompts"]["decodes"] == pytest.approx(1.5)
    assert result["missed"]["alone"]["mixed"]["median"] == pytest.approx(0.0, abs=1e-6)
    assert result["lone_decode_ms"] == pytest.approx(12.1 + 0.768)
    assert result["targets_ms"]["tpot_strict"] == pytest.approx(1.5 * (12.1 + 0.768))
    costs = read_costs(str(place))
    assert costs.ms(decode_shape(1, 256)) == pytest.approx(12.868 + 0.3)
    said = capsys.readouterr().out
    assert "targets to ask for" in said
    assert "50.0%" in said


def test_one_core_is_not_enough(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert cli.main([]) == 1
    assert "two cores are needed" in capsys.readouterr().err


def test_a_process_that_fails_is_told(
    told: list[Spec],
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TWINFLEET_CACHE", str(tmp_path))

    def fail(command: list[str], **_: Any) -> Any:
        raise subprocess.CalledProcessError(7, "child")

    monkeypatch.setattr(cli.subprocess, "run", fail)
    assert cli.main(["--model", str(tiny_folder)]) == 1
    assert "exit status 7" in " ".join(capsys.readouterr().err.split())


def test_what_lies_between_steps_is_a_line_that_is_never_negative() -> None:
    made = cli.outside({1: 0.4, 16: 1.9})
    assert (made.step_ms, made.row_ms) == (pytest.approx(0.3), pytest.approx(0.1))
    assert cli.outside({1: 0.4, 16: 0.3}) == Outside(0.4, 0.0)


def test_a_slowdown_is_the_median_over_the_same_steps() -> None:
    alone = [Sample(decode_shape(n, 10), 10.0) for n in (1, 2, 3)]
    beside = [Sample(one.shape, ms) for one, ms in zip(alone, (11.0, 12.0, 30.0), strict=True)]
    assert cli.slowdown(alone, beside) == {"decodes": pytest.approx(1.2)}
