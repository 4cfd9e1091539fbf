"""A folder is written whole and read back as it was."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from loadtest.console import print_summary
from loadtest.errors import LoadTestError
from loadtest.record import Outcome
from loadtest.report.page import write_report
from loadtest.results import REPORT, REQUESTS, SUMMARY, TABLE, read_results, write_results
from loadtest.summary import summarize
from tests.support.load_summaries import compared, one, swept


def test_what_a_call_left_behind_is_read_back(tmp_path: Path) -> None:
    summary, runs = compared()
    write_results(tmp_path / "new" / "folder", summary, runs)
    assert read_results(tmp_path / "new" / "folder") == (summary, runs)
    assert (tmp_path / "new" / "folder" / TABLE).stat().st_size > 0


def test_marks_and_server_figures_come_back(tmp_path: Path) -> None:
    summary, runs = one()
    write_results(tmp_path, summary, runs)
    _summary, (run,) = read_results(tmp_path)
    assert run.marks == runs[0].marks
    assert run.server == {"preemptions": 3.0}


def test_files_of_two_calls_are_not_put_together(tmp_path: Path) -> None:
    write_results(tmp_path / "a", *one())
    write_results(tmp_path / "b", *swept())
    (tmp_path / "a" / REQUESTS).replace(tmp_path / "b" / REQUESTS)
    with pytest.raises(LoadTestError, match="not of the same call"):
        read_results(tmp_path / "b")


def test_a_folder_without_a_summary_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(LoadTestError, match=SUMMARY):
        read_results(tmp_path)


def test_what_was_broken_off_stays_so(tmp_path: Path) -> None:
    summary, (run,) = one()
    cut = replace(run, broken_off=True)
    write_results(tmp_path, summarize(summary.origin, [cut], broken_off=True), [cut])
    again, (read,) = read_results(tmp_path)
    assert (again.broken_off, again.runs[0].broken_off, read.broken_off) == (True, True, True)


def test_a_server_that_speaks_half_characters_loses_nothing(tmp_path: Path) -> None:
    summary, measurements = compared()
    record = measurements[0].records[0]
    record.outcome, record.error = Outcome.FAILED, "half \ud800 a pair"
    write_results(tmp_path, summarize(summary.origin, measurements), measurements)
    write_report(tmp_path / REPORT, *read_results(tmp_path))
    read, runs = read_results(tmp_path)
    assert runs[0].records[0].error == read.failures[0].error == record.error
    out = StringIO()
    print_summary(read, Console(file=out))
    out.getvalue().encode()
