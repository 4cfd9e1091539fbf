"""Files that users bring: traces and prompts, of public data sets or their own.

None is part of this repository. A missing one is an error that says where such a file comes from;
a row that is not what it should be is one that names the file and the line.
"""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from loadtest.errors import LoadTestError

Row = TypeVar("Row", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Source:
    """A data set that a workload reads."""

    what: str
    repository: str
    """On GitHub, as owner/name."""
    files: str
    licence: str

    def __str__(self) -> str:
        return f"{self.what}: github.com/{self.repository}, {self.files}"


def lines_of(path: str, *sources: Source) -> Iterator[tuple[int, str]]:
    """(number from 1, line) of every line that is not blank, without its end. A relative path is
    relative to the current directory; `.gz` is unpacked."""
    file = Path(path).expanduser()
    opened = gzip.open if file.suffix == ".gz" else open
    try:
        with opened(file, "rt", encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except FileNotFoundError:
        raise LoadTestError(_missing(path, sources)) from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise LoadTestError(f"{path}: cannot be read: {error}") from None


def _missing(path: str, sources: tuple[Source, ...]) -> str:
    if not sources:
        return f"{path}: no such file"
    known = [f"  {source} ({source.licence})" for source in sources]
    return "\n".join([f"{path}: no such file. Where to get one:", *known])


def json_rows(path: str, row: type[Row], *sources: Source) -> Iterator[tuple[int, Row]]:
    """(line, what it says) of a file with one JSON object a line."""
    for number, line in lines_of(path, *sources):
        try:
            yield number, row.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            why = f"{key}: {first['msg']}" if key else first["msg"]
            raise bad_row(path, number, why) from None


def bad_row(path: str, line: int, why: str) -> LoadTestError:
    return LoadTestError(f"{path}: line {line}: {why}")
