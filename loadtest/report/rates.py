"""A sweep or a search at one glance: latency percentiles and attainment over the rate."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from loadtest.measurement import ALL
from loadtest.report.chart import (
    SERIES,
    Chart,
    Line,
    Spec,
    across_y,
    colors,
    dashes,
    drawn,
    significant,
    zoom,
)
from loadtest.search import Goodput
from loadtest.summary import RunFigures, Summary
from loadtest.tables import by_rate

STATS = ("P50", "P90", "P99")
_PAPER = "var(--paper, #ffffff)"
_LOG_FROM = 20.0
"""Between the least and the most: a scale of logarithms."""


@dataclass(frozen=True, slots=True)
class Point:
    """Of one curve."""

    series: str
    rate: float
    value: float
    is_firm: bool = True


def rates(summary: Summary) -> list[Chart]:
    """Nothing where there are not two rates."""
    runs = [run for run in by_rate(summary.runs) if run.rate is not None]
    if len({run.rate for run in runs}) < 2:
        return []
    targets = summary.targets
    charts = [
        _latency("ttft_ms", "TTFT", runs, targets.ttft_ms),
        _latency("tpot_ms", "TPOT", runs, targets.tpot_ms),
    ]
    if isinstance(summary.search, Goodput):
        return [*charts, _attainment(summary.search)]
    return [replace(chart, width="half") for chart in charts]


def _latency(key: str, called: str, runs: Sequence[RunFigures], target: float) -> Chart:
    """Of one side several percentiles; of several sides P90 each."""
    sides = list(dict.fromkeys(run.side for run in runs))
    several = len(sides) > 1
    points = [
        replace(point, series=run.side) if several else point
        for run in runs
        for point in _percentiles(key, run)
        if not several or point.series == "P90"
    ]
    names = sides if several else list(STATS)
    unfirm = not all(point.is_firm for point in points)
    return Chart(
        f"rates-{key.removesuffix('_ms')}",
        f"{called}{' P90' if several else ''} over rate",
        _spec(_medians(points), names, target),
        note="A hollow point rests on too few requests." if unfirm else "",
    )


def _percentiles(key: str, run: RunFigures) -> list[Point]:
    """Of all loads together."""
    measures = run.loads[ALL] if ALL in run.loads else next(iter(run.loads.values()))
    found = measures.distributions.get(key)
    if found is None or run.rate is None:
        return []
    return [
        Point("P50", run.rate, found.p50),
        Point("P90", run.rate, found.p90, found.p90_is_firm),
        Point("P99", run.rate, found.p99, found.p99_is_firm),
    ]


def _medians(points: Sequence[Point]) -> list[Point]:
    """One of those at the same rate, where several seeds were tried."""
    grouped: dict[tuple[str, float], list[Point]] = {}
    for point in points:
        grouped.setdefault((point.series, point.rate), []).append(point)
    return [
        Point(
            series,
            rate,
            median(point.value for point in same),
            all(point.is_firm for point in same),
        )
        for (series, rate), same in grouped.items()
    ]


def _rate_axis() -> Spec:
    return {
        "field": "rate",
        "type": "quantitative",
        "title": "rate of arrivals, sessions a second",
        "axis": {"format": ",.6~g"},
        "scale": {"zero": False, "nice": False, "padding": 12},
    }


def _spec(points: Sequence[Point], names: Sequence[str], target: float) -> Spec:
    color, dash = colors(names, ordered=False), dashes(names, ordered=False)
    color["legend"]["columns"] = dash["legend"]["columns"] = min(3, len(names))
    most = max((point.value for point in points), default=1.0)
    least = min((point.value for point in points), default=1.0)
    y: Spec = {
        "field": "ms",
        "type": "quantitative",
        "title": "milliseconds",
        "axis": {"format": ",.6~g", "tickCount": 6},
        "scale": _scale(least, max(most, target)),
    }
    line: Spec = {
        "data": {"values": [_row(point) for point in points]},
        "mark": {"type": "line", "strokeWidth": 2, "clip": True},
        "encoding": {"x": _rate_axis(), "y": y, "color": color, "strokeDash": dash},
        "params": [zoom()],
    }
    pointed = [_points(points, y, color, firm=firm) for firm in (True, False)]
    slo = across_y([Line(target, f"target {target:g} ms")] if target else [])
    return drawn([line, *pointed, *slo])


def _scale(least: float, most: float) -> Spec:
    """With room above for a target's label."""
    if least > 0 and most / least > _LOG_FROM:
        return {"type": "log"}
    return {"zero": True, "domainMax": significant(1.15 * most)}


def _row(point: Point) -> dict[str, object]:
    return {
        "series": point.series,
        "rate": significant(point.rate),
        "ms": significant(point.value),
    }


def _points(points: Sequence[Point], y: Spec, color: Spec, *, firm: bool) -> Spec:
    """Full where they are firm, else hollow."""
    mark: Spec = {"type": "point", "size": 50, "opacity": 1, "filled": firm}
    if not firm:
        mark |= {"fill": _PAPER, "strokeWidth": 2}
    return {
        "data": {"values": [_row(point) for point in points if point.is_firm is firm]},
        "mark": mark,
        "encoding": {
            "x": _rate_axis(),
            "y": y,
            "color": color,
            "tooltip": [
                {"field": "series", "type": "nominal", "title": "of"},
                {"field": "rate", "type": "quantitative", "title": "rate", "format": ",.4~r"},
                {"field": "ms", "type": "quantitative", "title": "milliseconds", "format": ",.4~r"},
            ],
        },
    }


def _attainment(search: Goodput) -> Chart:
    values = [
        {
            "rate": significant(point.rate),
            "share": round(point.attainment, 5),
            "low": round(point.interval[0], 5),
            "high": round(point.interval[1], 5),
            "judged": point.judged,
        }
        for point in search.points
    ]
    y: Spec = {
        "field": "share",
        "type": "quantitative",
        "title": "share that met all targets",
        "axis": {"format": ".0%", "values": [0, 0.2, 0.4, 0.6, 0.8, 1]},
        "scale": {"domain": [0, 1.05]},
    }
    data = {"values": values}
    layers: list[Spec] = [
        {
            "data": data,
            "mark": {"type": "line", "strokeWidth": 2, "color": SERIES[0], "clip": True},
            "encoding": {"x": _rate_axis(), "y": y},
            "params": [zoom()],
        },
        {
            "data": data,
            "mark": {"type": "rule", "strokeWidth": 1.5, "color": SERIES[0], "clip": True},
            "encoding": {"x": _rate_axis(), "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
        {
            "data": data,
            "mark": {"type": "point", "filled": True, "size": 60, "color": SERIES[0], "opacity": 1},
            "encoding": {
                "x": _rate_axis(),
                "y": y,
                "tooltip": [
                    {"field": "rate", "type": "quantitative", "title": "rate", "format": ",.4~r"},
                    {"field": "share", "type": "quantitative", "title": "met", "format": ".1%"},
                    {"field": "low", "type": "quantitative", "title": "from", "format": ".1%"},
                    {"field": "high", "type": "quantitative", "title": "to", "format": ".1%"},
                    {"field": "judged", "type": "quantitative", "title": "requests"},
                ],
            },
        },
        *across_y([Line(search.asked, f"asked {search.asked:.0%}")]),
    ]
    return Chart(
        "rates-attainment",
        "Attainment over rate",
        drawn(layers),
        note="Bars are 95% intervals of the share.",
    )
