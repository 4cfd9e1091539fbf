import subprocess
from pathlib import Path
from typing import Any

import pytest

from common.engine.bench import profile


@pytest.fixture
def arguments(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("TWINFLEET_CACHE", str(tmp_path))
    monkeypatch.setattr(profile, "find_py_spy", lambda: None)
    return ["--engine", "torch", "--model", str(tiny_folder), "--streams", "2", "--tokens", "4"]


def test_without_a_sampler_it_traces(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert profile.main(arguments) == 0
    said = capsys.readouterr().out
    assert "4 steps" in said
    assert "outside the runner" in said
    assert "torch._C._nn.linear" in said


def test_a_sampler_watches_a_process_that_only_runs(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **_: Any) -> Any:
        assert command[0] == "/bin/py-spy"
        assert command[command.index("--") + 2 :] == [
            "-m",
            "common.engine.bench.profile",
            *arguments,
            "--run-only",
        ]
        Path(command[command.index("--output") + 1]).write_text("answer (w.py:1);gemm (x.so) 8\n")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(profile, "find_py_spy", lambda: "/bin/py-spy")
    monkeypatch.setattr(profile.subprocess, "run", run)
    assert profile.main(arguments) == 0
    assert "gemm (x.so)" in capsys.readouterr().out


def test_a_sampler_that_may_not_look_is_told(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.CompletedProcess([], 1, stderr="Permission denied")
    monkeypatch.setattr(profile, "find_py_spy", lambda: "/bin/py-spy")
    monkeypatch.setattr(profile.subprocess, "run", lambda *_, **__: done)
    assert profile.main(arguments) == 1
    assert "Permission denied" in capsys.readouterr().out


def test_the_watched_process_says_nothing(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert profile.main([*arguments, "--run-only"]) == 0
    assert capsys.readouterr().out == ""
