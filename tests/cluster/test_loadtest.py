"""The load test as people use it: sides get real clusters, a running one is struck, and Ctrl-C
leaves results and no process."""

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from deploy.local.folders import Folders
from deploy.local.state import read_state
from loadtest.options import SIDES
from loadtest.results import REPORT, REQUESTS, read_results
from tests.support.live import (
    ROOT,
    TOPOLOGIES,
    assert_nothing_left,
    live_cluster,
    wait_until,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

LOAD = """
[[loads]]
sessions = %d
workload = { kind = "synthetic", prompt_tokens = 24, output_tokens = 12 }
arrivals = { kind = "poisson", rate = %g }
"""
SIDES_TABLE = f"""
name = "split"
description = "Prefill and decode apart, or on the same workers."
warmup = 1
pairs = 2
%s
[[sides]]
name = "test-apart"
topology = "{TOPOLOGIES / "mock-1p1d.toml"}"
[[sides]]
name = "test-together"
topology = "{TOPOLOGIES / "mock-0p2d.toml"}"
[[claims]]
text = "Both answer."
measure = "main.request_rate"
side = "test-apart"
against = "test-together"
at_least = 0.5
"""


def command(scenario: Path, *words: str) -> list[str]:
    out = scenario.parent / "out"
    run = [sys.executable, "-m", "loadtest", "run", "--scenario", str(scenario)]
    return [*run, "--out", str(out), *words]


def started(scenario: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(scenario, *words),
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: subprocess.Popen[str], limit_s: float) -> tuple[int, str]:
    """Its status and all it said."""
    try:
        said, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        # Softly, so that it takes its cluster with it.
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    return process.returncode, said


def _answered(folders: Folders) -> int:
    """Requests, as the gateway counts them; 0 while there is none."""
    state = read_state(folders.state)
    gateways = [process for process in state.processes if process.ready] if state else []
    for process in gateways:
        if process.role == "gateway":
            url = f"http://127.0.0.1:{process.admin_port}/metrics"
            with urllib.request.urlopen(url, timeout=5) as reply:
                return sum(
                    int(float(line.split()[-1]))
                    for line in reply.read().decode().splitlines()
                    if line.startswith("twinfleet_gateway_requests_total")
                )
    return 0


def sides_of(process: subprocess.Popen[str]) -> Path:
    return SIDES / str(process.pid)


def test_sides_get_clusters_in_turn_and_answer_the_same(tmp_path: Path) -> None:
    scenario = tmp_path / "split.toml"
    scenario.write_text(SIDES_TABLE % (LOAD % (10, 20)))
    process = started(scenario)
    status, said = ended(process, 90)
    assert status == 0, said
    summary, runs = read_results(tmp_path / "out")
    assert [run.side for run in runs] == [
        "test-apart", "test-together", "test-together", "test-apart",
    ]  # fmt: skip
    assert runs[0].seed == runs[1].seed != runs[2].seed == runs[3].seed
    assert {record.outcome for run in runs for record in run.records} == {"finished"}
    comparison = summary.comparison
    assert comparison is not None
    assert (comparison.sides, comparison.pairs) == (("test-apart", "test-together"), 2)
    (against,) = comparison.against
    assert against.answers is not None
    assert (against.answers.same, against.answers.compared) == (20, 20)
    assert len(against.figures["main.ttft_ms.p50"].ratios) == 2
    assert [checked.holds for checked in comparison.claims] == [True]
    assert not summary.broken_off
    assert_nothing_left(sides_of(process))


@pytest.mark.parametrize(
    ("how", "background"),
    [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)],
)
def test_a_comparison_that_is_interrupted_takes_its_cluster_with_it(
    tmp_path: Path,
    how: signal.Signals,
    background: bool,
) -> None:
    """A script's background job ignores SIGINT."""
    scenario = tmp_path / "split.toml"
    scenario.write_text(SIDES_TABLE % (LOAD % (1000, 20)))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if background else None
    try:
        process = started(scenario)
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    folders = Folders(sides_of(process) / "test-apart")
    try:
        wait_until(lambda: _answered(folders) >= 5, 60, "some requests have ended")
        process.send_signal(how)
    finally:
        status, said = ended(process, 30)
    assert status == 130, said
    assert "Broken off before its end" in said
    summary, (run,) = read_results(tmp_path / "out")
    assert (summary.broken_off, run.broken_off, run.side) == (True, True, "test-apart")
    assert 0 < len(run.records) < 1000
    assert_nothing_left(sides_of(process))


def test_a_cluster_that_runs_is_struck_and_the_run_goes_on_to_its_end(tmp_path: Path) -> None:
    scenario = tmp_path / "struck.toml"
    scenario.write_text(
        'name = "struck"\ndescription = "A worker dies."\n'
        + LOAD % (60, 20)
        + '[[faults]]\nat_s = 1.0\naction = "kill"\nprocess = "decode-0"\n'
    )
    run_folder = tmp_path / "run"
    with live_cluster(run_folder, str(TOPOLOGIES / "mock-2p2d.toml")) as live:
        words = ("--base-url", live.url, "--run", str(run_folder))
        status, said = ended(started(scenario, *words), 90)
        assert status == 0, said
    _summary, (run,) = read_results(tmp_path / "out")
    assert run.marks[0].text == "kill decode-0"
    assert run.marks[0].at_s == pytest.approx(1.0, abs=0.3)
    assert len(run.records) == 60
    assert not run.broken_off
    assert "cpu_s.decode-1" in run.server
    assert (tmp_path / "out" / REPORT).exists()
    assert len((tmp_path / "out" / REQUESTS).read_text().splitlines()) == 60
