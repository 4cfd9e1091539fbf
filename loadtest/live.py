"""The terminal while a run goes on: a table that is drawn again, or a line now and then.

Drawing reads counters only (progress.py), so that its cost does not grow with the load.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from rich.console import Console
from rich.live import Live
from rich.text import Text

from loadtest.numbers import duration, number
from loadtest.printable import printable
from loadtest.progress import LoadProgress, Progress, Speed, percentiles

REFRESH_S = 0.25
LINE_S = 5.0
BAR = 60
_COLUMNS = ("sent", "running", "finished", "missed", "left",
            "TTFT P50", "P90", "ITL P50", "P90", "lag P90")  # fmt: skip
_WIDTHS = (13, 7, 8, 6, 6, 8, 6, 7, 6, 7)


@asynccontextmanager
async def shown(
    progress: Progress, now: Callable[[], float], console: Console
) -> AsyncIterator[None]:
    """While the block runs. `now` in seconds since the run began."""
    task = asyncio.create_task(_draw(progress, now, console))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _draw(progress: Progress, now: Callable[[], float], console: Console) -> None:
    if not console.is_terminal:
        while True:
            await asyncio.sleep(LINE_S)
            console.print(line(progress, now()), markup=False, highlight=False, soft_wrap=True)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            live.update(view(progress, now()), refresh=True)
            await asyncio.sleep(REFRESH_S)


def view(progress: Progress, now_s: float) -> Text:
    """One text of fixed columns: a table that lays itself out costs ten times as much, and what is
    drawn holds up the moments of chunks that come meanwhile."""
    names = {name: printable(name) for name in progress.loads}
    width = max(len("load, ms"), *map(len, names.values()), 0)
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{_headline(progress, progress.speed(now_s), now_s)}\n", style="bold")
    share = progress.share_done()
    if share is not None:
        done = round(share * BAR)
        text.append("━" * done, style="green").append("━" * (BAR - done), style="dim")
        text.append(f" {share:.0%}\n")
    text.append(f"{'load, ms':{width}}{_row(_COLUMNS)}\n", style="dim")
    for name, load in progress.loads.items():
        style = "red" if load.missed else ""
        text.append(f"{names[name]:{width}}{_row(_cells(load))}\n", style=style)
    if progress.last_error:
        text.append(f"last error: {printable(progress.last_error)}", style="red")
    return text


def _row(cells: Sequence[str]) -> str:
    pairs = zip(cells, _WIDTHS, strict=True)
    return "".join(f"  {cell:>{width}}" for cell, width in pairs)


def _headline(progress: Progress, speed: Speed, now_s: float) -> str:
    left_s = progress.left_s(now_s)
    parts = [
        printable(progress.title),
        f"{duration(max(0.0, now_s))} gone",
        *((f"{duration(left_s)} left",) if left_s is not None else ()),
        f"{number(speed.sent)} sent/s",
        f"{number(speed.ended)} ended/s",
        f"{number(speed.chunks)} chunks/s",
    ]
    return "  ".join(parts)


def _cells(load: LoadProgress) -> list[str]:
    sent = f"{load.sent:,}" if load.expected is None else f"{load.sent:,}/{load.expected:,}"
    latencies = (*percentiles(load.ttft_ms), *percentiles(load.itl_ms), percentiles(load.lag_ms)[1])
    counts = (load.running, load.finished, load.missed, load.left)
    return [sent, *(f"{count:,}" for count in counts), *map(number, latencies)]


def line(progress: Progress, now_s: float) -> str:
    """All loads together, for a log."""
    speed = progress.speed(now_s)
    loads = progress.loads.values()
    missed, running = sum(x.missed for x in loads), sum(x.running for x in loads)
    parts = [
        _headline(progress, speed, now_s),
        f"sent {progress.total_sent:,}",
        f"running {running:,}",
        f"ended {progress.total_ended:,}",
    ]
    if missed:
        parts.append(f"missed {missed:,} (last: {printable(progress.last_error)})")
    return "  ".join(parts)
