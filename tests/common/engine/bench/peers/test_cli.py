"""With peers that are processes of their own and hold no model."""

import json
import os
import sys
from pathlib import Path

import pytest

from common.engine.bench.peers import cli
from common.engine.bench.peers.adapters import ADAPTERS, OURS
from common.engine.bench.peers.cases import Case
from common.engine.bench.peers.cli import chosen, main, orders, our_order, parse
from common.engine.bench.peers.peer_process import PeerProcess
from tests.support.bench_rig import tiny_choice

PAIRS = ["--repeats", "2", "--pause", "0"]
FAKE = "tests.support.fake_peer:open_engine"


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """With an interpreter that has nothing but the standard library."""
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    return tmp_path / "venv"


@pytest.fixture
def arguments(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("TWINFLEET_CACHE", str(tmp_path))
    monkeypatch.setattr(cli, "QUICK", (Case("streams", 2, output=3), Case("warm", 8)))
    for name in (OURS, "llama", "vllm"):
        monkeypatch.setitem(ADAPTERS, name, FAKE)
    return ["--model", str(tiny_folder), "--quick", "--threads", "1", *PAIRS]


def test_a_peer_is_compared_pair_by_pair(
    arguments: list[str], venv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "result.json"
    assert main([*arguments, "--venv", f"llama={venv}", "--json", str(place)]) == 0
    result = json.loads(place.read_text())
    assert result["peers"] == {"llama": "fake 1.0", "openvino": None, "vllm": None}
    streams, warm = result["comparisons"]
    assert (len(streams["ours"]), len(streams["theirs"])) == (2, 2)
    assert streams["ratio"] > 0
    assert warm["ratio"] > 0
    assert result["ours"]["threads"] == 1
    assert "fake 1.0" in capsys.readouterr().out


def test_one_that_fails_does_not_stop_the_next(
    arguments: list[str],
    venv: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    place = tmp_path / "result.json"
    broken = ["--venv", f"vllm={venv}", "--peer-model", "vllm=/nowhere/broken"]
    good = ["--venv", f"llama={venv}"]
    assert main([*arguments, *broken, *good, "--json", str(place)]) == 1
    result = json.loads(place.read_text())
    assert result["failures"] == {"vllm": "vllm ended with 1"}
    assert {one["peer"] for one in result["comparisons"]} == {"llama"}
    assert "vllm ended with 1" in capfd.readouterr().out


def test_no_prompt_comes_twice_while_ours_lives(
    arguments: list[str], venv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def run(self: PeerProcess, case: Case, seed: int, vocab: int) -> float:
        asked.append((self.name, seed))
        return 1.0

    monkeypatch.setattr(PeerProcess, "run", run)
    assert main([*arguments, "--venv", f"llama={venv}", "--venv", f"vllm={venv}"]) == 0
    ours = [seed for name, seed in asked if name == OURS]
    assert len(ours) == len(set(ours)) == 2 * 2 * 3, "peers, cases, pairs"


def test_kinds_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {case.kind for case in chosen(parse(["--only", "gap", "warm"]))} == {"gap", "warm"}


def test_without_any_nothing_is_measured(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 0
    assert capsys.readouterr().out.count("not measured") == 5, "three peers, two cases"


def test_models_and_environments_are_a_peers_own(venv: Path, tmp_path: Path) -> None:
    options = parse(
        [
            *("--venv", f"llama={venv}", "--venv", f"vllm={venv}"),
            *("--peer-model", "vllm=/hf", "--env", "vllm.LD_PRELOAD=a=b"),
        ]
    )
    llama, vllm = orders(options, tiny_choice(tmp_path, tmp_path))
    assert (llama.model, vllm.model) == (tmp_path, Path("/hf"))
    assert (dict(llama.environment), dict(vllm.environment)) == ({}, {"LD_PRELOAD": "a=b"})
    assert llama.python == venv / "bin" / "python"


def test_ours_runs_with_this_interpreter_and_its_choice(tmp_path: Path) -> None:
    order = our_order(tiny_choice(tmp_path, tmp_path))
    assert order.python == Path(sys.executable)
    assert order.options == {"engine": "torch", "arithmetic": "fp32", "cache": str(tmp_path)}


@pytest.mark.parametrize("wrong", ["gpt=/x", "ours=/x", "llama"])
def test_a_peer_nobody_knows_is_refused(wrong: str) -> None:
    with pytest.raises(SystemExit):
        parse(["--venv", wrong])
