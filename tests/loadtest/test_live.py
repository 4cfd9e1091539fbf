"""What the terminal shows while a run goes on."""

import asyncio
import io

import pytest
from rich.console import Console

from loadtest import live
from loadtest.live import line, shown, view
from loadtest.progress import Progress
from loadtest.record import Outcome, Record


def halfway() -> Progress:
    progress = Progress("chat", {"main": 10}, last_s=60)
    progress.speed(0.0)
    for number in range(5):
        progress.sent("main")
        record = Record("main", number, 0, scheduled_s=1.0, sent_s=1.0, outcome=Outcome.FINISHED)
        record.chunks_s = [1.25, 1.5]
        progress.ended(record)
    progress.chunks += 100
    return progress


def text_of(progress: Progress, now_s: float) -> str:
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    with console.capture() as capture:
        console.print(view(progress, now_s))
    return capture.get()


def test_the_view_has_progress_speed_latencies_and_time_left() -> None:
    text = text_of(halfway(), 10.0)
    assert "chat" in text
    assert "50 s left" in text
    assert "10 chunks/s" in text
    assert "5/10" in text
    assert "250" in text, "TTFT"


def test_the_words_of_a_server_are_no_markup() -> None:
    progress = halfway()
    record = Record("main", 9, 0, scheduled_s=0.0, outcome=Outcome.FAILED, error="[/red] [bold]x")
    progress.ended(record)
    assert "[/red] [bold]x" in text_of(progress, 1.0)


def test_a_line_is_one_line_and_says_what_was_missed() -> None:
    progress = halfway()
    progress.ended(Record("main", 9, 0, 0.0, outcome=Outcome.REJECTED, error="a\nb"))
    told = line(progress, 10.0)
    assert "\n" not in told
    assert "sent 5" in told
    assert "missed 1 (last: a b)" in told


async def test_without_a_terminal_there_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LINE_S", 0.0)
    console = Console(file=(out := io.StringIO()), width=300, force_terminal=False)
    async with shown(halfway(), lambda: 10.0, console):
        await asyncio.sleep(0.02)
    lines = out.getvalue().splitlines()
    assert len(lines) >= 2
    assert lines[0].startswith("chat")


async def test_in_a_terminal_the_view_is_gone_afterwards() -> None:
    console = Console(file=(out := io.StringIO()), width=120, force_terminal=True)
    async with shown(halfway(), lambda: 10.0, console):
        await asyncio.sleep(0.02)
    assert "chat" in out.getvalue()
    assert "\x1b[2K" in out.getvalue()[-200:], "erased"


async def test_an_error_of_the_run_is_not_hidden_by_the_view() -> None:
    console = Console(file=io.StringIO())
    with pytest.raises(KeyError):
        async with shown(halfway(), lambda: 10.0, console):
            raise KeyError
