"""The functions that took most of a run, from what either profiler wrote."""

import cProfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from rich import box
from rich.table import Table

_NAME_WIDTH = 80


@dataclass(frozen=True, slots=True)
class HotSpot:
    name: str
    alone: float
    """Share of the time in the function itself."""
    total: float
    """And in what it called."""


def from_stacks(text: str, below: str) -> list[HotSpot]:
    """py-spy's raw format: `outer;inner;innermost count` a line. Counts stacks that pass through
    the function `below`, and of them only what it called."""
    alone: Counter[str] = Counter()
    total: Counter[str] = Counter()
    samples = 0
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        at = next((i for i, frame in enumerate(frames) if frame.split(" ")[0] == below), None)
        if at is None:
            continue
        samples += int(count)
        alone[frames[-1]] += int(count)
        total.update(dict.fromkeys(frames[at:], int(count)))
    spots = [HotSpot(name, alone[name] / samples, total[name] / samples) for name in total]
    return sorted(spots, key=lambda spot: -spot.alone)


def from_cprofile(profile: cProfile.Profile) -> list[HotSpot]:
    entries = profile.getstats()
    whole = sum(entry.inlinetime for entry in entries)
    spots = [
        HotSpot(_name(entry.code), entry.inlinetime / whole, entry.totaltime / whole)
        for entry in entries
    ]
    return sorted(spots, key=lambda spot: -spot.alone)


def _name(code: CodeType | str) -> str:
    """Functions that are not Python's own have a description only."""
    if isinstance(code, str):
        return code
    return f"{code.co_name} ({Path(code.co_filename).name}:{code.co_firstlineno})"


def table(spots: Sequence[HotSpot], title: str, count: int = 20) -> Table:
    shown = Table(title=title, box=box.SIMPLE)
    shown.add_column("function", no_wrap=True, max_width=_NAME_WIDTH)
    shown.add_column("alone", justify="right", no_wrap=True)
    shown.add_column("with what it called", justify="right", no_wrap=True)
    for spot in spots[:count]:
        shown.add_row(spot.name, f"{spot.alone:.1%}", f"{spot.total:.1%}")
    return shown
