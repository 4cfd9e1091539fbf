"""The result of one call as JSON: what was run, on what, and every figure. Schema 1.

Figures are kept, requests are not: those stand in a file of their own. What is written can be read
back into the same structure; a file of another schema is refused. Keys and tokens of the command
line never get here.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import JsonValue, TypeAdapter, ValidationError

from loadtest.comparison import Comparison
from loadtest.errors import LoadTestError
from loadtest.knee import Knee
from loadtest.measurement import ALL, Mark, Measurement
from loadtest.metrics import LoadMeasures, Targets
from loadtest.plain import plain
from loadtest.record import Outcome, Record
from loadtest.search import Goodput
from loadtest.vllm_bench import VllmBench, vllm_bench

SCHEMA: Literal[1] = 1
FAILURES = 20
"""Shown one by one; of the rest only how many there are of each kind."""
MISSES = (Outcome.REJECTED, Outcome.FAILED, Outcome.CUT)
_HIDDEN = "***"
_USER_INFO = re.compile(r"(://)[^/@\s]+@")
_SECRET_OPTIONS = ("key", "token", "secret", "password")


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Of one `Measurement`. By load, then ALL of them where there are several."""

    side: str
    seed: int
    rate: float | None
    marks: tuple[Mark, ...]
    server: dict[str, float | None]
    loads: dict[str, LoadMeasures]
    vllm_bench: dict[str, VllmBench]
    """The same figures under vLLM's names."""
    broken_off: bool = False
    """Only requests that had ended by then are here."""


@dataclass(frozen=True, slots=True)
class Failure:
    run: int
    """Of `Summary.runs`, by number."""
    load: str
    request_id: str
    at_s: float
    """When it ended."""
    outcome: str
    status: int
    error: str


@dataclass(frozen=True, slots=True)
class ErrorCount:
    error: str
    count: int


@dataclass(frozen=True, slots=True)
class Origin:
    """How this came about. `scenario` is as it was run, after defaults."""

    version: str
    at: str
    """UTC, ISO 8601."""
    command: list[str]
    target: str
    """What was asked, in words: an address, or topologies of ours."""
    model: str
    machine: dict[str, JsonValue]
    """With `load_average`, of the minute before."""
    revision: dict[str, JsonValue]
    scenario: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Summary:
    origin: Origin
    targets: Targets
    runs: list[RunFigures]
    failures: list[Failure]
    errors: list[ErrorCount]
    """All of them, the most frequent first."""
    comparison: Comparison | None = None
    search: Goodput | Knee | None = None
    broken_off: bool = False
    """Not all that was asked for was measured."""
    schema: Literal[1] = SCHEMA


_SUMMARY = TypeAdapter(Summary)


def summarize(
    origin: Origin,
    measurements: Sequence[Measurement],
    comparison: Comparison | None = None,
    search: Goodput | Knee | None = None,
    *,
    broken_off: bool = False,
) -> Summary:
    """Raises ValueError of no measurement."""
    if not measurements:
        raise ValueError("nothing was measured")
    return Summary(
        origin=origin,
        targets=measurements[0].targets,
        runs=[_run(measurement) for measurement in measurements],
        failures=_failures(measurements),
        errors=_errors(measurements),
        comparison=comparison,
        search=search,
        broken_off=broken_off,
    )


def _run(measurement: Measurement) -> RunFigures:
    loads = measurement.loads()
    named = {
        name: [record for record in measurement.counted if name in (ALL, record.load)]
        for name in loads
    }
    return RunFigures(
        side=measurement.side,
        seed=measurement.seed,
        rate=measurement.rate,
        marks=measurement.marks,
        server={
            name: value if math.isfinite(value) else None
            for name, value in measurement.server.items()
        },
        loads=loads,
        vllm_bench={
            name: vllm_bench(named[name], measures, measurement.targets)
            for name, measures in loads.items()
        },
        broken_off=measurement.broken_off,
    )


def _missed(measurements: Sequence[Measurement]) -> list[tuple[int, Record]]:
    return [
        (number, record)
        for number, measurement in enumerate(measurements)
        for record in measurement.records
        if record.outcome in MISSES
    ]


def _failures(measurements: Sequence[Measurement]) -> list[Failure]:
    return [
        Failure(
            run=number,
            load=record.load,
            request_id=record.request_id,
            at_s=record.ended_s,
            outcome=record.outcome.value,
            status=record.status,
            error=record.error,
        )
        for number, record in _missed(measurements)[:FAILURES]
    ]


def _errors(measurements: Sequence[Measurement]) -> list[ErrorCount]:
    counts = Counter(record.error for _number, record in _missed(measurements))
    return [ErrorCount(error, count) for error, count in counts.most_common()]


def without_secrets(arguments: Sequence[str]) -> list[str]:
    """A command line whose `--api-key` and its like have no value, however they were given."""
    shown: list[str] = []
    hide = False
    for argument in arguments:
        option, equals, _value = argument.partition("=")
        secret = option.startswith("-") and option.lower().endswith(_SECRET_OPTIONS)
        if hide and not argument.startswith("--"):
            shown.append(_HIDDEN)
        elif secret and equals:
            shown.append(f"{option}={_HIDDEN}")
        else:
            shown.append(without_password(argument))
        hide = secret and not equals
    return shown


def without_password(text: str) -> str:
    """An address without the user and password that may stand in it."""
    return _USER_INFO.sub(rf"\1{_HIDDEN}@", text)


def utc(seconds: float) -> str:
    """Of seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def write_summary(path: Path, summary: Summary) -> None:
    text = json.dumps(plain(summary), indent=1, allow_nan=False, ensure_ascii=False)
    # Half a surrogate pair in a server's words cannot be written, and so becomes JSON's escape.
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def read_summary(path: Path) -> Summary:
    """Raises LoadTestError."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise LoadTestError(f"{path}: cannot be read: {error}") from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        raise LoadTestError(
            f"{path}: schema: is {schema!r}, and this version reads {SCHEMA}: not a summary, or"
            " one of another version"
        )
    try:
        return _SUMMARY.validate_python(found)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise LoadTestError(f"{path}: {key}: {first['msg']}") from None
