"""What all charts have in common: the look, the rules, and how a number gets small enough.

A chart is a Vega-Lite specification, a plain dict. Colours are CSS variables with a fallback, so
that one drawing serves a light screen, a dark one, and paper.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Spec = dict[str, Any]
"""A Vega-Lite specification, or a part of one."""

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""A name, not an address that anybody fetches."""
INK, SOFT, GRID = "var(--ink, #1c2128)", "var(--soft, #5c6670)", "var(--grid, #e3e7eb)"
MISS = "var(--miss, #c8102e)"
SERIES = tuple(f"var(--series-{number}, #0072b2)" for number in range(1, 7))
"""Side by side; told apart also by those who see no red or no green."""
RAMP = tuple(f"var(--ramp-{number}, #0072b2)" for number in range(1, 9))
"""In order: from low to high rates."""
DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 4], [1, 3])
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


@dataclass(frozen=True, slots=True)
class Chart:
    """`key` names it within the page: letters and dashes."""

    key: str
    title: str
    spec: Spec
    note: str = ""
    width: Literal["third", "half", "whole"] = "third"


def config() -> Spec:
    return {
        "font": FONT,
        "background": "transparent",
        "view": {"stroke": None},
        "axis": {
            "labelColor": SOFT,
            "titleColor": SOFT,
            "gridColor": GRID,
            "domainColor": GRID,
            "tickColor": GRID,
            "labelFontSize": 11,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "labelLimit": 220,
        },
        "legend": {
            "labelColor": INK,
            "titleColor": SOFT,
            "titleFontWeight": "normal",
            "orient": "top",
            "labelFontSize": 12,
            "symbolStrokeWidth": 2.5,
            "labelLimit": 280,
            "offset": 6,
        },
        "text": {"color": INK},
    }


def drawn(layers: Sequence[Spec], height: int = 240) -> Spec:
    """As wide as its place on the page."""
    return {
        "$schema": SCHEMA,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit", "contains": "padding", "resize": True},
        "config": config(),
        "layer": list(layers),
    }


def zoom(name: str = "zoom") -> Spec:
    """Drag moves the horizontal axis, the wheel with Ctrl stretches it: the page still scrolls."""
    return {
        "name": name,
        "select": {
            "type": "interval",
            "encodings": ["x"],
            "zoom": "wheel![event.ctrlKey || event.metaKey]",
        },
        "bind": "scales",
    }


def hover() -> Spec:
    return {
        "name": "hover",
        "select": {"type": "point", "on": "pointerover", "nearest": True, "clear": "pointerout"},
    }


@dataclass(frozen=True, slots=True)
class Line:
    """Across a chart, at a place of its axis."""

    at: float
    label: str


def across_x(lines: Iterable[Line], color: str = INK, *, before: bool = False) -> list[Spec]:
    """Upright; labels at the foot, to the right of the line or `before` it."""
    side: Spec = {"dx": -5, "align": "right"} if before else {"dx": 5, "align": "left"}
    beside: Spec = {"dy": -5, "baseline": "bottom", **side}
    return _rules("x", {"y": {"value": "height"}}, beside, lines, color)


def across_y(lines: Iterable[Line], color: str = INK) -> list[Spec]:
    """Level, labels above their left end."""
    beside: Spec = {"dy": -4, "dx": 6, "baseline": "bottom", "align": "left"}
    return _rules("y", {"x": {"value": 0}}, beside, lines, color)


def _rules(channel: str, edge: Spec, beside: Spec, lines: Iterable[Line], color: str) -> list[Spec]:
    data = {"values": [{"at": significant(line.at), "label": line.label} for line in lines]}
    if not data["values"]:
        return []
    place: Spec = {channel: {"field": "at", "type": "quantitative"}}
    return [
        {
            "data": data,
            "mark": {
                "type": "rule",
                "strokeDash": [5, 3],
                "strokeWidth": 1.2,
                "color": color,
                "clip": True,
            },
            "encoding": {**place, "tooltip": {"field": "label", "type": "nominal"}},
        },
        {
            "data": data,
            "mark": {"type": "text", "fontSize": 11, "color": color, "clip": True, **beside},
            "encoding": {**place, **edge, "text": {"field": "label", "type": "nominal"}},
        },
    ]


def colors(names: Sequence[str], *, ordered: bool) -> Spec:
    """A scale over names: a ramp where they have an order, else hues."""
    if ordered:
        steps = max(1, len(names) - 1)
        chosen = [RAMP[round(index * (len(RAMP) - 1) / steps)] for index in range(len(names))]
    else:
        chosen = [SERIES[index % len(SERIES)] for index in range(len(names))]
    return _by_name(names, chosen, columns=3 if ordered else 2)


def dashes(names: Sequence[str], *, ordered: bool) -> Spec:
    """Of the same names, so that paper without colours tells them apart, too."""
    chosen = [DASHES[0 if ordered else index % len(DASHES)] for index in range(len(names))]
    return _by_name(names, chosen, columns=3 if ordered else 2)


def _by_name(names: Sequence[str], chosen: Sequence[object], columns: int) -> Spec:
    """One name needs no legend."""
    legend = {"symbolType": "stroke", "symbolSize": 260, "columns": columns}
    return {
        "field": "series",
        "type": "nominal",
        "title": None,
        "sort": None,
        "scale": {"domain": list(names), "range": list(chosen)},
        "legend": legend if len(names) > 1 else None,
    }


def significant(value: float) -> float:
    """Four digits: more than a screen shows, in a third of the bytes."""
    return float(f"{value:.4g}")
