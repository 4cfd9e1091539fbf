import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from common.engine.bench import cli
from common.engine.bench.spec import Spec

RESULT = {
    "engine": "torch",
    "arithmetic": "fp32",
    "level": None,
    "threads": 1,
    "read_bytes_s": 1e9,
    "peak_flops_s": 1e10,
    "rows": [],
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Spec, str]]:
    """What each process was asked, and its OMP_NUM_THREADS."""
    specs: list[tuple[Spec, str]] = []

    def run(command: list[str], *, env: dict[str, str], **_: Any) -> Any:
        assert command[:3] == [sys.executable, "-m", "common.engine.bench.child"]
        spec = Spec.from_json(command[3])
        specs.append((spec, env["OMP_NUM_THREADS"]))
        line = json.dumps({**RESULT, "threads": spec.choice.threads})
        return subprocess.CompletedProcess(command, 0, stdout=f"a library talks\n{line}\n")

    monkeypatch.setattr(cli.subprocess, "run", run)
    monkeypatch.setattr(cli, "revision", lambda: {"commit": "abc", "modified": False})
    return specs


def test_each_thread_count_is_a_process_of_its_own(
    asked: list[tuple[Spec, str]],
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TWINFLEET_CACHE", str(tmp_path))
    place = tmp_path / "result.json"
    arguments = ["--model", str(tiny_folder), "--only", "warm", "--quick", "--json", str(place)]
    assert cli.main(arguments) == 0
    assert [(spec.choice.threads, threads) for spec, threads in asked] == [(1, "1"), (2, "2")]
    assert all(spec.parts == ("warm",) and spec.quick for spec, _ in asked)
    result = json.loads(place.read_text())
    assert [run["threads"] for run in result["runs"]] == [1, 2]
    assert len(result["model"]["digest"]) == 64
    assert result["revision"]["commit"] == "abc"
    assert result["machine"]["cores"] >= 1


def test_a_process_that_fails_is_told(
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


def test_thread_counts_and_parts_are_lists() -> None:
    options = cli.parse(["--threads", "1,4", "--only", "decode,mixed"])
    assert (options.threads, options.only) == ([1, 4], ["decode", "mixed"])


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.parse(["--only", "decode,lunch"])
    assert "lunch" in capsys.readouterr().err
