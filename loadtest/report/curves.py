"""How latencies are distributed: for each measure the share of values that are at most so long."""

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from loadtest.metrics import chunk_gaps_ms, token_gaps_ms, tpot_ms, ttft_ms
from loadtest.record import Record
from loadtest.report.chart import (
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
from loadtest.report.series import Series, is_ordered

POINTS = 200
_EVEN = 150
WIDE = 30.0
"""From how many times between P1 and P99 on an axis is logarithmic."""
Values = npt.NDArray[np.float64]


def reduced(values: Values) -> list[tuple[float, float]]:
    """(value, share of values at most that), at most POINTS of them, denser towards the tail."""
    count = len(values)
    if count <= POINTS:
        ordered = np.sort(values)
        shares = np.arange(1, count + 1) / count
    else:
        tail = 1 - np.geomspace(0.01, 1 / count, POINTS - _EVEN)
        shares = np.unique(np.concatenate([np.linspace(0, 0.99, _EVEN), tail[1:], [1.0]]))
        ordered = np.percentile(values, shares * 100)
    return [
        (significant(value), round(float(share), 6))
        for value, share in zip(ordered.tolist(), shares, strict=True)
    ]


def curves(found: Sequence[Series]) -> list[Chart]:
    targets = found[0].targets
    records = [one.counted for one in found]
    by_token = all(any(map(token_gaps_ms, some)) for some in records)
    gaps = _token_gaps if by_token else _chunk_gaps
    measures: tuple[tuple[str, str, Callable[[Sequence[Record]], Values], float], ...] = (
        ("ttft", "Time to first token, TTFT", _of_request(ttft_ms), targets.ttft_ms),
        ("tpot", "Time per output token, TPOT", _of_request(tpot_ms),
         targets.tpot_ms),
        ("itl", f"Gaps between {'tokens' if by_token else 'chunks'}, ITL", gaps, 0.0),
    )  # fmt: skip
    charts = []
    for key, title, of, target in measures:
        values = {one.name: of(some) for one, some in zip(found, records, strict=True)}
        kept = {name: some for name, some in values.items() if len(some)}
        if kept:
            spec = _spec(kept, target, ordered=is_ordered(found))
            charts.append(Chart(f"cdf-{key}", title, spec))
    return charts


def _of_request(of: Callable[[Record], float | None]) -> Callable[[Sequence[Record]], Values]:
    def values(records: Sequence[Record]) -> Values:
        return np.asarray([value for record in records if (value := of(record)) is not None])

    return values


def _chunk_gaps(records: Sequence[Record]) -> Values:
    return np.asarray(list(chain.from_iterable(map(chunk_gaps_ms, records))))


def _token_gaps(records: Sequence[Record]) -> Values:
    return np.asarray(list(chain.from_iterable(token_gaps_ms(r) or () for r in records)))


def _spec(values: dict[str, Values], target: float, *, ordered: bool) -> Spec:
    names = list(values)
    data = {
        "values": [
            {"series": name, "ms": value, "share": share}
            for name, some in values.items()
            for value, share in reduced(some)
        ]
    }
    everything = np.concatenate(list(values.values()))
    x: Spec = {
        "field": "ms",
        "type": "quantitative",
        "title": "milliseconds",
        "axis": {"format": "~s" if everything.max() >= 1e5 else ",.6~g", "tickCount": 5},
        "scale": _scale(everything, target),
    }
    y: Spec = {
        "field": "share",
        "type": "quantitative",
        "title": "share at most this",
        "axis": {"format": ".0%", "tickCount": 5},
        "scale": {"domain": [0, 1]},
    }
    line: Spec = {
        "data": data,
        "mark": {"type": "line", "strokeWidth": 2, "clip": True},
        "encoding": {
            "x": x,
            "y": y,
            "color": colors(names, ordered=ordered),
            "strokeDash": dashes(names, ordered=ordered),
        },
        "params": [zoom()],
    }
    slo = [Line(target, f"target {target:g} ms")] if target else []
    right = target > float(everything.max()) / 2
    return drawn([line, _points(data, x, y, names, ordered=ordered), *across_x(slo, before=right)])


def _points(data: Spec, x: Spec, y: Spec, names: Sequence[str], *, ordered: bool) -> Spec:
    return {
        "data": data,
        "mark": {"type": "point", "filled": True, "size": 60, "clip": True},
        "params": [hover()],
        "encoding": {
            "x": x,
            "y": y,
            "color": colors(names, ordered=ordered),
            "opacity": {
                "condition": {"param": "hover", "empty": False, "value": 1},
                "value": 0,
            },
            "tooltip": [
                {"field": "series", "type": "nominal", "title": "of"},
                {"field": "ms", "type": "quantitative", "title": "milliseconds", "format": ",.4~r"},
                {"field": "share", "type": "quantitative", "title": "at most", "format": ".2%"},
            ],
        },
    }


def _scale(values: Values, target: float) -> Spec:
    low, high = np.percentile(values, (1, 99))
    if low > 0 and high / low > WIDE:
        least = significant(float(low) / 1.5)
        most = significant(max(float(values.max()), target))
        return {"type": "log", "domain": [least, most], "nice": False}
    return {"domain": [0, significant(1.05 * max(float(values.max()), target))], "nice": False}
