"""What happened when: requests running, tokens a second, what was missed, what was done to the
server. Reduced to BINS moments, however long the run was."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loadtest.measurement import Measurement
from loadtest.metrics import tokens_of_chunks
from loadtest.record import Record
from loadtest.report.chart import (
    MISS,
    Chart,
    Line,
    Spec,
    across_x,
    colors,
    dashes,
    drawn,
    hover,
    significant,
    zoom,
)
from loadtest.report.series import Series
from loadtest.summary import MISSES

BINS = 300
SHORTEST_BIN_S = 0.1
MOST = 4
"""Curves over time that can be told apart."""
POINTS = 300
"""Misses shown one by one; of more an even choice."""
_CROSSES = "A red cross is a request that was refused, failed or cut."
Array = npt.NDArray[np.float64]


def edges_of(records: Sequence[Record]) -> Array:
    """From the first sending to the last end."""
    start = min(0.0, min(record.sent_s for record in records))
    stop = max(record.ended_s for record in records)
    count = int(np.clip((stop - start) / SHORTEST_BIN_S, 1, BINS))
    return np.linspace(start, max(stop, start + SHORTEST_BIN_S), count + 1)


def running(records: Sequence[Record], edges: Array) -> Array:
    """Mean number of requests that were sent and had not ended, of each bin: exact, since the
    integral of that number up to a moment is the time since all sendings less that since all ends.
    """
    sent = np.sort(np.asarray([record.sent_s for record in records]))
    ended = np.sort(np.asarray([record.ended_s for record in records]))
    return np.diff(_since(sent, edges) - _since(ended, edges)) / np.diff(edges)


def _since(moments: Array, edges: Array) -> Array:
    """For each edge the sum of how long ago the moments before it were."""
    before = np.searchsorted(moments, edges, side="right")
    totals = np.concatenate([[0.0], np.cumsum(moments)])
    summed: Array = before * edges - totals[before]
    return summed


def tokens_s(records: Sequence[Record], edges: Array) -> Array:
    """Output tokens a second; those of a request are spread over its chunks where nobody counted
    them as they came."""
    with_chunks = [record for record in records if record.chunks_s]
    if not with_chunks:
        return np.zeros(len(edges) - 1)
    times = np.concatenate([np.asarray(record.chunks_s) for record in with_chunks])
    weights = np.concatenate([_weights(record) for record in with_chunks])
    counts, _edges = np.histogram(times, bins=edges, weights=weights)
    speeds: Array = counts / np.diff(edges)
    return speeds


def _weights(record: Record) -> Array:
    counts = tokens_of_chunks(record)
    if counts is not None:
        return np.asarray(counts, dtype=np.float64)
    chunks = len(record.chunks_s)
    return np.full(chunks, (record.output_tokens or 0) / chunks)


def timeline(found: Sequence[Series]) -> list[Chart]:
    """Of each side its first run, at the highest rate where there are several."""
    chosen = list({one.side: one for one in found}.values())[:MOST]
    shown = {one.name: one.measurements[0] for one in chosen}
    edges = {name: edges_of(one.records) for name, one in shown.items()}
    which = _which(found, chosen)
    run = {name: running(one.records, edges[name]) for name, one in shown.items()}
    speed = {name: tokens_s(one.records, edges[name]) for name, one in shown.items()}
    misses = _misses(shown, edges, run)
    return [
        Chart(
            "timeline-running",
            "Requests running",
            _spec(edges, run, _marks(shown), "requests", misses),
            note=f"{which}{_CROSSES if misses else ''}".strip(),
            width="whole",
        ),
        Chart(
            "timeline-tokens",
            "Output tokens a second",
            _spec(edges, speed, _marks(shown), "tokens a second", []),
            note=which.strip(),
            width="whole",
        ),
    ]


def _which(found: Sequence[Series], chosen: Sequence[Series]) -> str:
    if len(chosen) < len(found):
        return f"Of {' and '.join(one.name for one in chosen)}. "
    if any(len(one.measurements) > 1 for one in chosen):
        return f"Of seed {chosen[0].measurements[0].seed}. "
    return ""


def _marks(shown: dict[str, Measurement]) -> list[Line]:
    """Sides get the same faults at about the same time: those of the first side stand for all,
    unless only others have any."""
    for measurement in shown.values():
        if measurement.marks:
            return [Line(mark.at_s, mark.text) for mark in measurement.marks]
    return []


Point = dict[str, Any]


def _misses(
    shown: dict[str, Measurement], edges: dict[str, Array], run: dict[str, Array]
) -> list[Point]:
    points: list[Point] = []
    for name, measurement in shown.items():
        missed = [record for record in measurement.records if record.outcome in MISSES]
        step = max(1, -(-len(missed) // POINTS))
        for record in missed[::step]:
            place = int(np.searchsorted(edges[name], record.ended_s)) - 1
            points.append(
                {
                    "series": name,
                    "at": significant(record.ended_s),
                    "value": significant(float(run[name][min(max(place, 0), len(run[name]) - 1)])),
                    "end": record.outcome.value,
                    "error": record.error[:200],
                    "request": record.request_id,
                }
            )
    return points


def _spec(
    edges: dict[str, Array],
    values: dict[str, Array],
    marks: list[Line],
    title: str,
    misses: list[Point],
) -> Spec:
    names = list(values)
    ordered = False
    data = {
        "values": [
            {"series": name, "at": significant(at), "value": significant(value)}
            for name, some in values.items()
            for at, value in zip(_middles(edges[name]), some.tolist(), strict=True)
        ]
    }
    x: Spec = {
        "field": "at",
        "type": "quantitative",
        "title": "seconds since the run began",
        "scale": {"nice": False},
        "axis": {"tickCount": 12, "format": ",.6~g"},
    }
    y: Spec = {
        "field": "value",
        "type": "quantitative",
        "title": title,
        "axis": {"tickCount": 5, "format": ",.6~g"},
    }
    color = colors(names, ordered=ordered)
    line: Spec = {
        "data": data,
        "mark": {"type": "line", "strokeWidth": 1.6, "interpolate": "monotone", "clip": True},
        "encoding": {"x": x, "y": y, "color": color, "strokeDash": dashes(names, ordered=ordered)},
        "params": [zoom()],
    }
    pointed: Spec = {
        "data": data,
        "mark": {"type": "point", "filled": True, "size": 50, "clip": True},
        "params": [hover()],
        "encoding": {
            "x": x,
            "y": y,
            "color": color,
            "opacity": {"condition": {"param": "hover", "empty": False, "value": 1}, "value": 0},
            "tooltip": [
                {"field": "series", "type": "nominal", "title": "of"},
                {"field": "at", "type": "quantitative", "title": "second", "format": ",.1f"},
                {"field": "value", "type": "quantitative", "title": title, "format": ",.4~r"},
            ],
        },
    }
    return drawn([line, pointed, *across_x(marks, MISS), *_crosses(misses, x, y)], height=200)


def _middles(edges: Array) -> list[float]:
    middles: list[float] = ((edges[1:] + edges[:-1]) / 2).tolist()
    return middles


def _crosses(misses: list[Point], x: Spec, y: Spec) -> list[Spec]:
    if not misses:
        return []
    shown = {"series": "of", "request": "request", "end": "end", "error": "what was said"}
    return [
        {
            "data": {"values": misses},
            "mark": {
                "type": "point",
                "shape": "cross",
                "filled": True,
                "size": 70,
                "color": MISS,
                "angle": 45,
                "clip": True,
            },
            "encoding": {
                "x": x,
                "y": y,
                "tooltip": [
                    {"field": field, "type": "nominal", "title": title}
                    for field, title in shown.items()
                ],
            },
        }
    ]
