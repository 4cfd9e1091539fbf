"""The result in the terminal, when the run is over."""

from collections.abc import Iterator
from typing import Literal

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from loadtest.printable import printable
from loadtest.ratio_tables import ratio_tables, search_table
from loadtest.summary import Summary
from loadtest.tables import Cell, Kind, Table, errors, latency, throughput
from loadtest.verdict import verdict

_STYLES: dict[Kind, str] = {
    "": "",
    "name": "",
    "unfirm": "dim",
    "good": "green",
    "bad": "bold red",
}


def print_summary(summary: Summary, console: Console) -> None:
    for table in _tables(summary):
        across = _across(table)
        unbounded = console.options.update(max_width=_UNBOUNDED)
        fits = Measurement.get(console, unbounded, across).maximum <= console.width
        turned = len(table.rows) < _TURNED_BELOW and not fits
        console.print(_down(table) if turned else across)
    first, *rest = verdict(summary)
    console.print(Text(first, style="bold"))
    for sentence in rest:
        console.print(Text(sentence))


_UNBOUNDED = 10_000
_TURNED_BELOW = 5
"""Rows that fit side by side."""


def _tables(summary: Summary) -> Iterator[Table]:
    yield throughput(summary)
    yield latency(summary)
    if summary.search is not None:
        yield search_table(summary.search)
    yield from (table for table in ratio_tables(summary) if not table.folded)
    wrong = errors(summary)
    if wrong is not None:
        yield wrong


def _empty(table: Table) -> RichTable:
    """Text everywhere, never markup: names and errors come from others."""
    drawn = RichTable(title=Text(table.title), title_justify="left", box=box.SIMPLE, pad_edge=False)
    if table.notes:
        drawn.caption = Text("\n".join(table.notes), style="dim")
        drawn.caption_justify = "left"
    return drawn


def _across(table: Table) -> RichTable:
    drawn = _empty(table)
    kinds = [cell.kind for cell in table.rows[0]] if table.rows else []
    grouped = any(group.heading for group in table.columns)
    headings = [
        f"{'' if place else group.heading}\n{column}" if grouped else column
        for group in table.columns
        for place, column in enumerate(group.names)
    ]
    for heading, kind in zip(headings, kinds, strict=True):
        justify: Literal["left", "right"] = "left" if kind == "name" else "right"
        drawn.add_column(Text(heading), justify=justify, no_wrap=kind != "name")
    for row in table.rows:
        drawn.add_row(*map(_cell, row))
    return drawn


def _down(table: Table) -> RichTable:
    """A line a figure, for few rows and a narrow terminal."""
    drawn = _empty(table)
    drawn.show_header = False
    drawn.add_column(no_wrap=True)
    for _row in table.rows:
        drawn.add_column(justify="right", no_wrap=True)
    names = [
        f"{group.heading} {column}".strip() for group in table.columns for column in group.names
    ]
    for heading, *cells in zip(names, *table.rows, strict=True):
        drawn.add_row(Text(heading), *map(_cell, cells))
    return drawn


def _cell(cell: Cell) -> Text:
    return Text(printable(cell.text), style=_STYLES[cell.kind])
