"""Every request of a call in a file: JSON lines that read back without loss, and a table.

A line is all that a record holds, which run it belongs to, and its measures for whoever reads the
file without this program. Reading takes the record and computes again.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from loadtest.errors import LoadTestError
from loadtest.measurement import Measurement
from loadtest.metrics import REQUEST_MEASURES, Targets
from loadtest.plain import plain
from loadtest.record import Record

_FIELDS = tuple(column.name for column in fields(Record))
_RECORD = TypeAdapter(Record)
_LISTS = ("chunks_s", "chunk_tokens", "server")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula."""


@dataclass(frozen=True, slots=True)
class Run:
    """The records of one measurement."""

    side: str
    seed: int
    rate: float | None
    records: list[Record] = field(default_factory=list)


def lines(measurements: Sequence[Measurement]) -> Iterator[str]:
    for number, measurement in enumerate(measurements):
        run = {
            "run": number,
            "side": measurement.side,
            "seed": measurement.seed,
            "rate": measurement.rate,
        }
        for record in measurement.records:
            row = run | {name: getattr(record, name) for name in _FIELDS}
            row |= _measures(record, measurement.targets)
            yield json.dumps(plain(row), allow_nan=False, ensure_ascii=False)


def _measures(record: Record, targets: Targets) -> dict[str, float | bool | None]:
    found: dict[str, float | bool | None] = {
        name: of(record) for name, of in REQUEST_MEASURES.items()
    }
    return found | {"met": targets.met(record) if targets.any else None}


def write_requests(path: Path, measurements: Sequence[Measurement]) -> None:
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(f"{line}\n" for line in lines(measurements))


def read_requests(path: Path) -> list[Run]:
    """Runs in the order of their measurements. Raises LoadTestError."""
    try:
        with path.open(encoding="utf-8") as file:
            return parse_requests(file, str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise LoadTestError(f"{path}: cannot be read: {error}") from None


def parse_requests(text: Iterable[str], source: str) -> list[Run]:
    """Raises LoadTestError that names the line."""
    runs: dict[int, Run] = {}
    for number, line in enumerate(text, 1):
        try:
            row = json.loads(line)
            run = runs.setdefault(row["run"], Run(row["side"], row["seed"], row["rate"]))
            run.records.append(_RECORD.validate_python({name: row[name] for name in _FIELDS}))
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            kind = type(error).__name__
            raise LoadTestError(f"{source}:{number}: not a request: {kind}") from None
    return [runs[number] for number in sorted(runs)]


def write_table(path: Path, measurements: Sequence[Measurement]) -> None:
    """CSV, a row a request, lists as their lengths and ends, for spreadsheets."""
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.writer(file)
        header: list[str] = []
        for row in _rows(measurements):
            if not header:
                header = list(row)
                writer.writerow(header)
            writer.writerow([_cell(value) for value in row.values()])


def _rows(measurements: Sequence[Measurement]) -> Iterator[Mapping[str, object]]:
    for measurement in measurements:
        for record in measurement.records:
            flat = {name: getattr(record, name) for name in _FIELDS if name not in _LISTS}
            yield {
                "side": measurement.side,
                "seed": measurement.seed,
                "rate": measurement.rate,
                **flat,
                "first_chunk_s": record.chunks_s[0] if record.chunks_s else None,
                "last_chunk_s": record.chunks_s[-1] if record.chunks_s else None,
                "chunks": len(record.chunks_s),
                **_measures(record, measurement.targets),
            }


def _cell(value: object) -> object:
    """Text that a server chose must not become a formula of whoever opens the table."""
    kept = plain(value)
    if isinstance(kept, str) and kept.startswith(_FORMULA):
        return f"'{kept}"
    return kept
