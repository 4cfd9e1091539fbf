"""The folder that a call leaves behind: what to show, what to read by program, and every request.

The report is made from the other files alone, so it can be made again from them, also by a later
version.
"""

from collections.abc import Sequence
from pathlib import Path

from loadtest.errors import LoadTestError
from loadtest.measurement import Measurement
from loadtest.requests_file import read_requests, write_requests, write_table
from loadtest.summary import Summary, read_summary, write_summary

SUMMARY = "summary.json"
REQUESTS = "requests.jsonl"
TABLE = "requests.csv"
REPORT = "report.html"


def write_results(folder: Path, summary: Summary, measurements: Sequence[Measurement]) -> None:
    """All but the report. The folder is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    write_summary(folder / SUMMARY, summary)
    write_requests(folder / REQUESTS, measurements)
    write_table(folder / TABLE, measurements)


def read_results(folder: Path) -> tuple[Summary, list[Measurement]]:
    """As they were written. Raises LoadTestError."""
    summary = read_summary(folder / SUMMARY)
    runs = read_requests(folder / REQUESTS)
    if [(run.side, run.seed, run.rate) for run in runs] != [
        (run.side, run.seed, run.rate) for run in summary.runs
    ]:
        raise LoadTestError(f"{folder}: {SUMMARY} and {REQUESTS} are not of the same call")
    measurements = [
        Measurement(
            side=figures.side,
            seed=figures.seed,
            targets=summary.targets,
            records=run.records,
            rate=figures.rate,
            server={name: value for name, value in figures.server.items() if value is not None},
            marks=figures.marks,
            broken_off=figures.broken_off,
        )
        for figures, run in zip(summary.runs, runs, strict=True)
    ]
    return summary, measurements
