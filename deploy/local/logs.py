"""`logs`: the end of every process's log, merged by time, and what comes after."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deploy.local.folders import Folders
from deploy.local.log_lines import merged, readable

_POLL_S = 0.2
_TAIL_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class _Tail:
    lines: list[str]
    end: int
    """Byte after the last line."""


def show_logs(
    folders: Folders, names: list[str], count: int, say: Callable[[str], None]
) -> dict[Path, int]:
    """The last `count` lines over all named processes (no names: all); returns where each ends."""
    tails = {path: _tail(path) for path in _files(folders, names)}
    for line in merged({path.stem: tail.lines for path, tail in tails.items()})[-count:]:
        say(line)
    return {path: tail.end for path, tail in tails.items()}


def follow_logs(
    folders: Folders, names: list[str], ends: dict[Path, int], say: Callable[[str], None]
) -> None:
    """What comes after `ends`, until interrupted. New processes join in."""
    while True:
        for path in _files(folders, names):
            lines, ends[path] = _whole_lines(path, ends.get(path, 0))
            for line in lines:
                say(readable(line, path.stem))
        time.sleep(_POLL_S)


def _files(folders: Folders, names: list[str]) -> list[Path]:
    found = sorted(folders.logs.glob("*.log"))
    return [path for path in found if not names or path.stem in names]


def _tail(path: Path) -> _Tail:
    start = max(0, path.stat().st_size - _TAIL_BYTES)
    lines, end = _whole_lines(path, start)
    # Not from the start means from the middle of a line.
    return _Tail(lines[1:] if start else lines, end)


def _whole_lines(path: Path, start: int) -> tuple[list[str], int]:
    """Lines that are complete, and the place after them."""
    with path.open("rb") as file:
        file.seek(start)
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    return whole.decode(errors="replace").splitlines(), start + len(whole)
