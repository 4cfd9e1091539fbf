"""The result in a terminal of any width."""

import io

import pytest
from rich.console import Console

from loadtest.console import print_summary
from loadtest.summary import Summary
from loadtest.verdict import verdict
from tests.support.load_summaries import HOSTILE, compared, made, one, searched


def printed(summary: Summary, width: int) -> str:
    console = Console(file=(out := io.StringIO()), width=width)
    print_summary(summary, console)
    return out.getvalue()


def test_it_ends_with_the_verdict() -> None:
    summary = one()[0]
    text = printed(summary, 400)
    assert text.rstrip().endswith(verdict(summary)[-1])
    assert "Throughput" in text
    assert HOSTILE in text


@pytest.mark.parametrize("width", [80, 100, 200])
def test_no_figure_is_cut_off_where_rows_are_few(width: int) -> None:
    summary = one()[0]
    for line in printed(summary, width).splitlines():
        assert len(line) <= width
        assert "…" not in line


def test_a_comparison_has_claims_and_ratios_and_leaves_out_what_is_folded() -> None:
    text = printed(compared()[0], 200)
    assert "Claims" in text
    assert "new against old" in text
    assert "all other figures" not in text


def test_a_search_shows_its_rates() -> None:
    assert "Rates tried" in printed(searched()[0], 200)


def test_commands_to_the_terminal_are_taken_out() -> None:
    runs = one()[1]
    runs[0].records[0].error = "\x1b]0;owned\x07[bold]x"
    text = printed(made(runs)[0], 200)
    assert "\x1b" not in text
    assert "[bold]x" in text
