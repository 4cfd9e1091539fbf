import io
from pathlib import Path

import pytest
from rich.console import Console

from common.engine.bench.rig import Rig
from common.engine.bench.step_split import StepSplit


def test_a_step_is_the_runner_and_what_is_around_it(rig: Rig) -> None:
    split = StepSplit.measured(rig, 2, 6)
    assert split.steps == 6
    assert 0 < split.forward_ms < split.step_ms
    assert split.phases_ms == {}


def test_a_runner_that_counts_tells_its_phases(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([{"attention": 1.0}, {"attention": 1.6, "head": 0.3}])
    monkeypatch.setattr(
        type(rig.runner.inner), "counters", lambda self: next(seconds), raising=False
    )
    split = StepSplit.measured(rig, 2, 6)
    assert split.phases_ms == {
        "attention": pytest.approx(100.0),
        "head": pytest.approx(50.0),
    }


def test_the_table_has_shares_of_the_whole_step(tmp_path: Path) -> None:
    file = io.StringIO()
    Console(file=file, width=80).print(StepSplit(9, 4.0, 3.0, {"attention": 1.0}).table())
    lines = [line.split() for line in file.getvalue().splitlines()]
    assert ["step", "4.000", "100.0%"] in lines
    assert ["outside", "the", "runner", "1.000", "25.0%"] in lines
    assert ["attention", "1.000", "25.0%"] in lines
