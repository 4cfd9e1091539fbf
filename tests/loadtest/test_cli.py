"""The commands from end to end, against a server in a thread."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.local.folders import Folders
from loadtest import contenders
from loadtest.cli import INTERRUPTED, WRONG_USE, main
from loadtest.cluster import Cluster
from loadtest.errors import LoadTestError
from loadtest.results import REPORT, REQUESTS, SUMMARY, TABLE, read_results
from loadtest.scenario import Side
from loadtest.server_watch import Watched
from loadtest.summary import Summary
from tests.support.load_server import Served, serving

ROOT = Path(__file__).parents[2]
SCENARIO = """
name = "mine"
description = "Mine."
warmup = 1
[[loads]]
sessions = 4
workload = { kind = "synthetic", prompt_tokens = 4, output_tokens = 5 }
arrivals = { kind = "constant", rate = 200.0 }
"""
SIDES = """
pairs = 2
[[sides]]
name = "new"
[[sides]]
name = "old"
[[claims]]
text = "No slower."
measure = "main.request_rate"
side = "new"
against = "old"
at_least = %s
"""


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as server:
        yield server


def with_sides(file: Path, at_least: str) -> None:
    head, table, loads = SCENARIO.partition("[[loads]]")
    pairs, sides, rest = (SIDES % at_least).partition("[[sides]]")
    file.write_text(f"{head}{pairs}{table}{loads}{sides}{rest}")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(SCENARIO)
    return path


def sides_at(url: str, monkeypatch: pytest.MonkeyPatch, fails: str = "") -> None:
    """Every side's cluster is this server, but that of one side does not start."""

    @asynccontextmanager
    async def side_cluster(side: Side, folder: Path, _model: str) -> AsyncIterator[Cluster]:
        if side.name == fails:
            raise LoadTestError(f"side {side.name}: no cluster.")
        yield Cluster(url, Folders(folder))

    monkeypatch.setattr(contenders, "side_cluster", side_cluster)
    monkeypatch.setattr("loadtest.run.watch", _unwatched)


@asynccontextmanager
async def _unwatched(*_arguments: object) -> AsyncIterator[Any]:
    yield Watched()


def run(file: Path, url: str, *words: str) -> int:
    out = file.parent / "out"
    return main(["run", "--scenario", str(file), "--base-url", url, "--out", str(out), *words])


def summary_of(file: Path) -> Summary:
    return read_results(file.parent / "out")[0]


def test_a_run_leaves_a_folder_that_reads_back(
    served: Served, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, served.url, "--seed", "5") == 0
    out = file.parent / "out"
    assert {path.name for path in out.iterdir()} == {SUMMARY, REQUESTS, TABLE, REPORT}
    summary, (measured,) = read_results(out)
    assert len(measured.records) == 4
    assert measured.seed == 5
    assert summary.runs[0].loads["main"].output_tokens == 20
    assert not summary.broken_off
    assert summary.origin.scenario["name"] == "mine"
    assert "<html" in (out / REPORT).read_text()
    assert len((out / REQUESTS).read_text().splitlines()) == 4
    assert len((out / TABLE).read_text().splitlines()) == 5
    said = capsys.readouterr().out
    assert "seed 5" in said
    assert "4 of 4 requests finished" in said
    assert len(served.asked) == 5, "the warm-up, too"


def test_a_seed_that_is_not_given_is_drawn_told_and_asks_for_the_same_again(
    served: Served, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, served.url) == 0
    first = list(served.prompts)
    command = summary_of(file).origin.command
    seed = command[command.index("--seed") + 1]
    assert f"seed {seed}\n" in capsys.readouterr().out
    assert summary_of(file).runs[0].seed == int(seed)
    served.asked.clear()
    assert run(file, served.url) == 0
    assert not set(first) & set(served.prompts)
    served.asked.clear()
    assert main(command[3:]) == 0
    assert sorted(served.prompts) == sorted(first)


def test_a_server_that_does_not_count_has_no_figures_of_tokens(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(counts=False) as served:
        assert run(file, served.url) == 0
    measures = summary_of(file).runs[0].loads["main"]
    assert (measures.output_tokens, measures.output_tokens_s, measures.prompt_tokens) == (None,) * 3
    assert measures.distributions["ttft_ms"].count == 4
    assert "output tokens a second." not in capsys.readouterr().out


def test_what_a_person_can_put_right_is_a_message(
    served: Served, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, "http://127.0.0.1:9") == WRONG_USE
    assert "127.0.0.1:9" in capsys.readouterr().err
    assert run(file, served.url, "--set", "loads.0.session=3") == WRONG_USE
    assert capsys.readouterr().err == "mine.toml: loads.0.session: no such key\n"
    assert run(file, served.url, "--fail-over", "5%") == WRONG_USE
    assert "--fail-over" in capsys.readouterr().err
    assert main(["report", str(file.parent / "nowhere")]) == WRONG_USE
    assert SUMMARY in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_said_before_anything_is_asked(
    served: Served, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file.parent / "out").write_text("a file")
    assert run(file, served.url) == WRONG_USE
    assert "--out" in capsys.readouterr().err
    assert served.asked == []


def test_the_report_is_written_again(served: Served, file: Path) -> None:
    run(file, served.url)
    page = file.parent / "out" / REPORT
    before = page.read_text()
    page.unlink()
    assert main(["report", str(page.parent)]) == 0
    assert page.read_text() == before


def test_the_list_has_scenarios_and_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    said = capsys.readouterr().out
    assert "chat" in said
    assert "mooncake" in said


def test_of_two_addresses_the_second_is_held_against_the_first(
    served: Served, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--scenario", str(file), "--out", str(file.parent / "out"), "--pairs", "2"]
    with serving(gap_s=0.05) as slow:
        assert main(["compare", slow.url, served.url, *words, "--fail-over", "5%"]) == 0
        assert main(["compare", served.url, slow.url, *words, "--fail-over", "5%"]) == 1
        assert len(slow.asked) == 2 * 2 * 5
        # The sides of a pair are asked the same things, and no two pairs are.
        assert sorted(slow.prompts) == sorted(served.prompts)
        assert len(set(slow.prompts)) == len(slow.prompts)
    comparison = summary_of(file).comparison
    assert comparison is not None
    assert comparison.candidate == f"b ({slow.url})"
    assert comparison.pairs == 2
    answers = comparison.against[0].answers
    assert answers is not None
    assert (answers.same, answers.compared) == (8, 8)
    assert "main.tpot_ms.p50" in capsys.readouterr().out


@pytest.mark.parametrize(("at_least", "status"), [("0.01", 0), ("100.0", 1)])
def test_a_claim_that_is_missed_is_status_1(
    served: Served, file: Path, monkeypatch: pytest.MonkeyPatch, at_least: str, status: int
) -> None:
    sides_at(served.url, monkeypatch)
    with_sides(file, at_least)
    assert main(["run", "--scenario", str(file), "--out", str(file.parent / "out")]) == status
    comparison = summary_of(file).comparison
    assert comparison is not None
    assert comparison.sides == ("new", "old")
    assert [checked.holds for checked in comparison.claims] == [status == 0]


def test_what_was_measured_before_a_side_failed_is_left(
    served: Served, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sides_at(served.url, monkeypatch, fails="old")
    with_sides(file, "0.01")
    words = ["--scenario", str(file), "--out", str(file.parent / "out")]
    assert main(["run", *words]) == WRONG_USE
    said = capsys.readouterr()
    assert said.err == "side old: no cluster.\n"
    assert "Broken off before its end" in said.out
    summary = summary_of(file)
    assert [run.side for run in summary.runs] == ["new"]
    assert (summary.broken_off, summary.runs[0].broken_off) == (True, False)
    assert summary.comparison is None


def test_an_address_stands_for_no_side_so_sides_and_claims_are_left_out(
    served: Served, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_sides(file, "100.0")
    assert run(file, served.url) == 0
    assert "sides and claims are left out" in capsys.readouterr().out
    assert summary_of(file).origin.scenario["sides"] == []
    words = ["--scenario", str(file), "--out", str(file.parent / "out"), "--pairs", "1"]
    assert main(["compare", served.url, served.url, *words]) == 0
    comparison = summary_of(file).comparison
    assert comparison is not None
    assert comparison.claims == ()


def test_an_interrupted_run_ends_at_once_and_leaves_what_it_has(file: Path) -> None:
    with serving() as served:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "loadtest", "run", "--scenario", str(file),
                "--base-url", served.url, "--out", str(file.parent / "out"),
                "--sessions", "100", "--rate", "20",
            ],
            cwd=ROOT, env=os.environ | {"COLUMNS": "200"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + 20
            while len(served.asked) < 4 and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            said, errors = process.communicate(timeout=10)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == INTERRUPTED, errors
    assert errors == ""
    assert "Broken off before its end" in said
    summary, (measured,) = read_results(file.parent / "out")
    assert (summary.broken_off, measured.broken_off) == (True, True)
    assert 2 <= len(measured.records) < 50
    assert json.loads((file.parent / "out" / SUMMARY).read_text())["broken_off"] is True
