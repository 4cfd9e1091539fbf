"""What is written is read back, holds no secret, and is JSON to everybody."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from loadtest.errors import LoadTestError
from loadtest.summary import (
    FAILURES,
    Summary,
    read_summary,
    summarize,
    utc,
    without_secrets,
    write_summary,
)
from tests.support.load_records import Server, measurement
from tests.support.load_summaries import ORIGIN, Made, compared, made, one, searched, swept


@pytest.mark.parametrize("make", [one, swept, searched, compared])
def test_what_was_written_is_read_back(make: Callable[[], Made], tmp_path: Path) -> None:
    summary, _runs = make()
    write_summary(tmp_path / "s.json", summary)
    assert read_summary(tmp_path / "s.json") == summary


def written(summary: Summary, folder: Path) -> dict[str, object]:
    path = folder / "s.json"
    write_summary(path, summary)

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    found = json.loads(path.read_text(), parse_constant=refuse)
    assert isinstance(found, dict)
    return found


def test_figures_have_the_names_of_the_field_and_ours(tmp_path: Path) -> None:
    summary, runs = one()
    found = json.loads(json.dumps(written(summary, tmp_path)))
    assert found["schema"] == 1
    load = found["runs"][0]["loads"]["main"]
    assert load["issued"] == 60
    assert load["misses"] == runs[0].loads()["main"].misses > 0
    assert load["distributions"]["ttft_ms"]["p99_is_firm"] is False
    bench = found["runs"][0]["vllm_bench"]["main"]
    assert bench["median_ttft_ms"] > 0
    assert bench["completed"] == load["outcomes"]["finished"]
    assert found["runs"][0]["marks"] == [{"at_s": 3.0, "text": "kill decode-0"}]


def test_a_comparison_says_what_it_shows_and_whether_claims_hold(tmp_path: Path) -> None:
    found = json.loads(json.dumps(written(compared()[0], tmp_path)))
    ratio = found["comparison"]["against"][0]["figures"]["main.ttft_ms.p50"]
    assert ratio["shown"] == "better"
    assert ratio["mean"] < 1
    assert [claim["holds"] for claim in found["comparison"]["claims"]] == [True, False]


def test_no_number_is_written_that_json_does_not_know(tmp_path: Path) -> None:
    run = replace(measurement(), server={"a": math.nan, "b": math.inf, "c": 1.0})
    found = json.loads(json.dumps(written(made([run])[0], tmp_path)))
    assert found["runs"][0]["server"] == {"a": None, "b": None, "c": 1.0}


def test_loads_are_kept_apart_and_together() -> None:
    run = measurement()
    for record in run.records[::2]:
        record.load = "batch"
    figures = made([run])[0].runs[0]
    assert list(figures.loads) == ["batch", "main", "all"]
    assert [figures.vllm_bench[load]["num_prompts"] for load in figures.loads] == [30, 30, 60]


def test_failures_are_shown_up_to_a_number_and_all_counted() -> None:
    runs = [measurement(seed=1), measurement(seed=2, count=200, server=Server(fails=0.5))]
    summary = made(runs)[0]
    total = sum(run.loads()["main"].misses for run in runs)
    assert len(summary.failures) == FAILURES < total
    assert sum(error.count for error in summary.errors) == total
    assert [e.count for e in summary.errors] == sorted(e.count for e in summary.errors)[::-1]
    assert summary.failures[0].run == 1
    assert summary.failures[0].error
    assert {f.outcome for f in summary.failures} <= {"rejected", "failed", "cut"}


def test_nothing_cannot_be_summarized() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        summarize(ORIGIN, [])


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["run", "--api-key", "sk-1"], ["run", "--api-key", "***"]),
        (["--api-key=sk-1", "x"], ["--api-key=***", "x"]),
        (["--token", "-sk", "x"], ["--token", "***", "x"]),
        (["--api-key", "--quiet"], ["--api-key", "--quiet"]),
        (["http://me:pw@host/v1"], ["http://***@host/v1"]),
        (["http://host/a@b"], ["http://host/a@b"]),
        (["--prompt-tokens", "5", "--seed=1"], ["--prompt-tokens", "5", "--seed=1"]),
    ],
)
def test_a_secret_of_the_command_line_is_hidden(given: list[str], shown: list[str]) -> None:
    assert without_secrets(given) == shown


def test_a_moment_is_told_in_utc() -> None:
    assert utc(0.0) == "1970-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "cannot be read"),
        ("[]", "schema: is None"),
        ('{"schema": 2}', "schema: is 2"),
        ('{"schema": 1}', "origin: Field required"),
    ],
)
def test_what_is_no_summary_is_refused(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(LoadTestError, match=complaint):
        read_summary(tmp_path / "s.json")


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(LoadTestError, match="cannot be read"):
        read_summary(tmp_path / "s.json")
