"""The report: one file that shows everything and loads nothing, so that it can be mailed, archived
and opened without a network.

Its policy lets only the two scripts run that this module put in, by their hashes, and lets nothing
be fetched: what a server wrote into an error stays text, even if it were not escaped.
"""

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import vl_convert

from loadtest.measurement import Measurement
from loadtest.ratio_tables import ratio_tables, search_table
from loadtest.report.chart import Chart
from loadtest.report.curves import curves
from loadtest.report.html import embedded_json, escaped, facts, paragraphs, table
from loadtest.report.rates import rates
from loadtest.report.series import series_of
from loadtest.report.timeline import timeline
from loadtest.report.waterfall import waterfall
from loadtest.summary import Origin, Summary
from loadtest.tables import Table, errors, failures, latency, server, throughput
from loadtest.verdict import told_targets, verdict

_HOW_TO = "Drag to move along an axis, Ctrl and the wheel to zoom, double-click to go back."


def write_report(path: Path, summary: Summary, measurements: Sequence[Measurement]) -> None:
    text = page(summary, measurements)
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def page(summary: Summary, measurements: Sequence[Measurement]) -> str:
    """`measurements` are those of the summary's runs, in the same order."""
    scripts = (_library(), _file("page.js"))
    title = str(summary.origin.scenario.get("name", "load test"))
    body = "".join(_body(summary, measurements, title))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escaped(title)} – load test</title><style>{_file('style.css')}</style></head>\n"
        f"<body>{body}\n"
        f"{''.join(f'<script>{script}</script>' for script in scripts)}</body></html>\n"
    )


def _body(summary: Summary, measurements: Sequence[Measurement], title: str) -> Iterator[str]:
    about = summary.origin.scenario.get("description", "")
    yield f"<header><h1>{escaped(title)}</h1>{paragraphs([str(about)], 'about')}</header>"
    yield f'<div class="verdict">{paragraphs(verdict(summary), "")}</div>'
    yield facts(_facts(summary))
    yield from map(table, _tables(summary))
    yield '<section><h2>Charts</h2><div class="charts">'
    yield from map(_figure, _charts(summary, measurements))
    yield f"</div>{paragraphs([_HOW_TO], 'note')}</section>"
    for shown in (errors(summary), failures(summary), server(summary)):
        if shown is not None:
            yield table(shown)
    scenario = escaped(json.dumps(summary.origin.scenario, indent=2, ensure_ascii=False))
    yield f"<details><summary>The scenario, with defaults</summary><pre>{scenario}</pre></details>"


def _tables(summary: Summary) -> Iterator[Table]:
    tables = ratio_tables(summary)
    yield from (one for one in tables if not one.folded)
    if summary.search is not None:
        yield search_table(summary.search)
    yield throughput(summary)
    yield latency(summary)
    yield from (one for one in tables if one.folded)


def _charts(summary: Summary, measurements: Sequence[Measurement]) -> Iterator[Chart]:
    found = series_of(measurements)
    yield from rates(summary)
    yield from curves(found)
    yield from timeline(found)
    slowest = waterfall(found)
    if slowest is not None:
        yield slowest


def _figure(chart: Chart) -> str:
    return (
        f'<figure data-chart="{chart.key}" class="{chart.width}"><figcaption>'
        f"<h3>{escaped(chart.title)}</h3>"
        '<button class="save" type="button">save SVG</button></figcaption><div class="plot"></div>'
        f'<script type="application/json">{embedded_json(chart.spec)}</script>'
        f"{paragraphs([chart.note] if chart.note else [], 'note')}</figure>"
    )


def _facts(summary: Summary) -> Iterator[tuple[str, str]]:
    origin = summary.origin
    yield "asked", origin.target
    yield "model", origin.model
    yield "targets", told_targets(summary.targets)
    yield "runs", _runs(summary)
    yield "when", origin.at
    yield "code", _revision(origin)
    yield from _machine(origin)
    yield "command", " ".join(origin.command)


def _runs(summary: Summary) -> str:
    runs, seeds = len(summary.runs), len({run.seed for run in summary.runs})
    issued = sum(list(run.loads.values())[-1].issued for run in summary.runs)
    told = f"{issued:,} requests"
    if runs > 1:
        told += f" in {runs} runs"
    return f"{told} of {seeds} seeds" if seeds > 1 else told


def _revision(origin: Origin) -> str:
    changed = ", with changes" if origin.revision.get("modified") else ""
    return f"{str(origin.revision.get('commit', ''))[:12]}{changed}, version {origin.version}"


def _machine(origin: Origin) -> Iterator[tuple[str, str]]:
    machine = origin.machine
    cores, memory = machine.get("cores"), machine.get("memory_bytes")
    size = f", {memory / 2**30:.0f} GiB" if isinstance(memory, int | float) else ""
    yield "client on", f"{machine.get('processor', '')}, {cores} cores{size}"
    load = machine.get("load_average")
    if isinstance(load, int | float):
        yield "busy with", f"{load:.1f} processes, in the minute before"


@cache
def _library() -> str:
    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    if "</script" in script.lower() or "<!--" in script:
        raise ValueError("the bundle of Vega cannot stand within a page")
    return script


@cache
def _file(name: str) -> str:
    return (files("loadtest.report") / name).read_text()


def _policy(scripts: Sequence[str]) -> str:
    """Vega compiles its expressions, which is why eval is allowed to them."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; "
        f"script-src {hashes} 'unsafe-eval'"
    )
