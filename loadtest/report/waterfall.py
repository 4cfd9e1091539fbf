"""Where the time of the slowest requests went: late client, waiting for the first token, the rest.

What the server says of a request is shown when one points at it. Its names become titles of the
chart, so only plain words are taken.
"""

import re
from collections.abc import Sequence
from typing import Any

from loadtest.metrics import e2e_ms
from loadtest.record import Record
from loadtest.report.chart import SERIES, SOFT, Chart, Spec, drawn, significant
from loadtest.report.series import Series

SLOWEST = 20
PHASES = ("client late", "to first token", "first to last token")
_WORD = re.compile(r"[a-z][a-z0-9_]{0,40}")
_MOST_WORDS = 30


def waterfall(found: Sequence[Series]) -> Chart | None:
    several = len(found) > 1
    timed = [
        (took, one.name if several else "", record)
        for one in found
        for record in one.records
        if (took := e2e_ms(record)) is not None
    ]
    if not timed:
        return None
    slowest = sorted(timed, key=lambda row: -row[0])[:SLOWEST]
    rows = [
        bar
        for place, (took, name, record) in enumerate(slowest, 1)
        for bar in _bars(place, took, name, record)
    ]
    order = list(dict.fromkeys(row["request"] for row in rows))
    told = sorted({key for _took, _name, record in slowest for key in told_by(record)})
    return Chart(
        "waterfall",
        f"The {len(slowest)} slowest requests",
        _spec(rows, order, told[:_MOST_WORDS]),
        note="Since the moment each was meant to be sent.",
        width="whole",
    )


def told_by(record: Record) -> dict[str, float]:
    """Numbers that the server gives of a request and that are not 0."""
    found: dict[str, float] = {}
    for key, value in record.server.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        for sub, number in inner:
            name = f"{key}_{sub}" if sub else key
            if isinstance(number, int | float) and number and _WORD.fullmatch(name):
                found[name] = float(number)
    return found


def _bars(place: int, took: float, name: str, record: Record) -> list[dict[str, Any]]:
    moments = (record.scheduled_s, record.sent_s, record.chunks_s[0], record.chunks_s[-1])
    since = [significant(moment - record.scheduled_s) for moment in moments]
    called = f"{record.load} {record.session}" + (f", turn {record.turn}" if record.turn else "")
    common: dict[str, Any] = {
        "request": f"{place}. {f'{name}: ' if name else ''}{called}",
        "id": record.request_id,
        "scheduled": significant(record.scheduled_s),
        "prompt": record.prompt_tokens,
        "output": record.output_tokens,
        "cached": record.cached_tokens,
        "total": significant(took / 1e3),
        **{f"server_{key}": significant(value) for key, value in told_by(record).items()},
    }
    return [
        {
            **common,
            "phase": phase,
            "from": since[number],
            "to": since[number + 1],
            "took": significant(since[number + 1] - since[number]),
        }
        for number, phase in enumerate(PHASES)
    ]


def _spec(rows: list[dict[str, Any]], order: list[str], told: list[str]) -> Spec:
    shown = [
        ("id", "request", "nominal"),
        ("phase", "phase", "nominal"),
        ("took", "took, s", "quantitative"),
        ("total", "all, s", "quantitative"),
        ("scheduled", "meant for second", "quantitative"),
        ("prompt", "prompt tokens", "quantitative"),
        ("cached", "of these cached", "quantitative"),
        ("output", "output tokens", "quantitative"),
        *((f"server_{key}", f"server: {key}", "quantitative") for key in told),
    ]
    bar: Spec = {
        "data": {"values": rows},
        "mark": {"type": "bar", "height": {"band": 0.72}},
        "encoding": {
            "y": {
                "field": "request",
                "type": "nominal",
                "sort": order,
                "title": None,
                "axis": {"labelLimit": 260, "domain": False, "ticks": False, "labelPadding": 8},
            },
            "x": {
                "field": "from",
                "type": "quantitative",
                "title": "seconds since it was meant to be sent",
                "axis": {"format": ",.6~g", "tickCount": 10},
            },
            "x2": {"field": "to"},
            "color": {
                "field": "phase",
                "type": "nominal",
                "title": None,
                "sort": None,
                "scale": {"domain": list(PHASES), "range": [SOFT, SERIES[1], SERIES[0]]},
            },
            "tooltip": [
                {"field": field, "type": kind, "title": title}
                | ({"format": ",.4~r"} if kind == "quantitative" else {})
                for field, title, kind in shown
            ],
        },
    }
    return drawn([bar], height=max(60, 21 * len(order) + 30))
