"""Elements as text. The one place that escapes: whatever comes from a server, a file or a command
line passes through here before it is part of a page."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from loadtest.printable import printable
from loadtest.tables import Cell, Columns, Table

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
_SPECIAL = re.compile("[&<>\"']")


def escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], text)


def embedded_json(value: Mapping[str, Any]) -> str:
    """To stand within a script element: no `<` of it can end that or begin a comment."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def paragraphs(texts: Iterable[str], kind: str) -> str:
    return "".join(f'<p class="{kind}">{escaped(text)}</p>' for text in texts)


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """A list of names and what they are; without those that are nothing."""
    rows = "".join(
        f"<div><dt>{escaped(term)}</dt><dd>{escaped(printable(told))}</dd></div>"
        for term, told in pairs
        if told
    )
    return f'<dl class="facts">{rows}</dl>'


def table(shown: Table) -> str:
    """Folded ones open on demand."""
    body = (
        f'<div class="scroll"><table>{_head(shown)}<tbody>'
        f"{''.join(map(_row, shown.rows))}</tbody></table></div>"
        f"{paragraphs(shown.notes, 'note')}"
    )
    if shown.folded:
        return f"<details><summary>{escaped(shown.title)}</summary>{body}</details>"
    return f"<section><h2>{escaped(shown.title)}</h2>{body}</section>"


def _head(shown: Table) -> str:
    kinds = iter([cell.kind for cell in shown.rows[0]] if shown.rows else ())
    names = "".join(
        f"<th{_classes(group, place, next(kinds, ''))}>{escaped(column)}</th>"
        for group in shown.columns
        for place, column in enumerate(group.names)
    )
    if not any(group.heading for group in shown.columns):
        return f"<thead><tr>{names}</tr></thead>"
    groups = "".join(
        f'<th colspan="{len(group.names)}"{_classes(group, 0, "")}>{escaped(group.heading)}</th>'
        for group in shown.columns
        if group.names
    )
    return f'<thead><tr class="groups">{groups}</tr><tr>{names}</tr></thead>'


def _classes(group: Columns, place: int, kind: str) -> str:
    begins = "begins" if group.heading and place == 0 else ""
    both = " ".join(filter(None, (begins, "name" if kind == "name" else "")))
    return f' class="{both}"' if both else ""


def _row(row: tuple[Cell, ...]) -> str:
    return f"<tr>{''.join(map(_cell, row))}</tr>"


def _cell(cell: Cell) -> str:
    kind = f' class="{cell.kind}"' if cell.kind else ""
    return f"<td{kind}>{escaped(printable(cell.text))}</td>"
