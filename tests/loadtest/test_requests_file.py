"""No request loses anything on its way to a file and back."""

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.errors import LoadTestError
from loadtest.measurement import Measurement
from loadtest.metrics import Targets, ttft_ms
from loadtest.record import Outcome, Record
from loadtest.requests_file import (
    lines,
    parse_requests,
    read_requests,
    write_requests,
    write_table,
)
from tests.support.load_records import Server, measurement

_moments = st.floats(-1e6, 1e6)
_counts = st.none() | st.integers(0, 1 << 40)
RECORDS = st.builds(
    Record,
    load=st.text(max_size=5),
    session=st.integers(0, 9),
    turn=st.integers(0, 9),
    scheduled_s=_moments,
    sent_s=_moments,
    ended_s=_moments,
    outcome=st.sampled_from(Outcome),
    chunks_s=st.lists(_moments, max_size=4),
    chunk_tokens=st.lists(st.integers(0, 9), max_size=4),
    status=st.integers(0, 599),
    error=st.text(),
    prompt_tokens=_counts,
    output_tokens=_counts,
    server=st.dictionaries(
        st.text(max_size=4), st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    ),
)


def of(records: list[Record], targets: Targets | None = None) -> Measurement:
    return Measurement("here", 7, targets or Targets(), records, rate=2.5)


@given(st.lists(RECORDS, min_size=1, max_size=4))
def test_a_record_comes_back_as_it_was(records: list[Record]) -> None:
    (run,) = parse_requests(lines([of(records)]), "memory")
    assert run.records == records
    assert (run.side, run.seed, run.rate) == ("here", 7, 2.5)


def test_runs_are_told_apart_also_where_they_have_equal_names(tmp_path: Path) -> None:
    runs = [measurement(seed=3), measurement(seed=3, count=5), measurement("other")]
    write_requests(tmp_path / "r.jsonl", runs)
    found = read_requests(tmp_path / "r.jsonl")
    assert [run.records for run in found] == [run.records for run in runs]
    assert [run.side for run in found] == ["aggregated", "aggregated", "other"]


def test_a_line_has_its_measures_for_other_readers() -> None:
    run = measurement(server=Server(fails=0.3))
    rows = [json.loads(line) for line in lines([run])]
    assert [row["ttft_ms"] for row in rows] == [ttft_ms(record) for record in run.records]
    assert [row["met"] for row in rows] == [run.targets.met(record) for record in run.records]
    assert {"tpot_ms", "e2e_ms", "lag_ms", "side", "seed", "rate"} <= rows[0].keys()


def test_without_targets_nobody_met_or_missed() -> None:
    record = measurement(count=1).records[0]
    (row,) = map(json.loads, lines([of([record])]))
    assert row["met"] is None


@pytest.mark.parametrize("text", ["{", "3", '{"run": 0}', '{"run": 0, "side": "a", "seed": 1}'])
def test_what_is_no_request_is_refused_with_its_line(text: str) -> None:
    good = next(iter(lines([measurement(count=1)])))
    with pytest.raises(LoadTestError, match="file:2: not a request"):
        parse_requests([good, text], "file")


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(LoadTestError, match="cannot be read"):
        read_requests(tmp_path / "r.jsonl")


def table_of(run: Measurement, folder: Path) -> list[dict[str, str]]:
    write_table(folder / "r.csv", [run])
    with (folder / "r.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_table_has_a_row_a_request_and_no_lists(tmp_path: Path) -> None:
    run = measurement(server=Server(fails=0.3))
    rows = table_of(run, tmp_path)
    assert len(rows) == len(run.records)
    answered = next(r for r in run.records if r.chunks_s)
    row = rows[run.records.index(answered)]
    assert float(row["first_chunk_s"]) == answered.chunks_s[0]
    assert int(row["chunks"]) == len(answered.chunks_s)
    assert float(row["ttft_ms"]) == ttft_ms(answered)
    assert not {"chunks_s", "server"} & row.keys()


@pytest.mark.parametrize("error", ["=1+1", "+1", "-1", "@a", "\t=1"])
def test_no_text_of_a_server_becomes_a_formula(error: str, tmp_path: Path) -> None:
    record = measurement(count=1).records[0]
    record.error = error
    assert table_of(of([record]), tmp_path)[0]["error"] == f"'{error}"
