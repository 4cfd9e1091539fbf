"""The figures of a summary as tables, for the terminal and the page alike. Pure.

A percentile that rests on too few requests is shown and marked, never hidden: P90 is worth its name
from 200 requests on and P99 from 1,000.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from loadtest.metrics import ENOUGH_FOR_P90, ENOUGH_FOR_P99, Distribution, LoadMeasures
from loadtest.numbers import number, share
from loadtest.summary import RunFigures, Summary

Kind = Literal["", "name", "unfirm", "good", "bad"]
UNFIRM = "~"
UNFIRM_NOTE = (
    f"{UNFIRM} rests on too few requests to be trusted: P90 needs {ENOUGH_FOR_P90}, "
    f"P99 {ENOUGH_FOR_P99:,}."
)


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    kind: Kind = ""


@dataclass(frozen=True, slots=True)
class Columns:
    """Neighbours under one heading; it may be empty."""

    heading: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[Columns, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    folded: bool = False
    """For those who ask: the page opens it on demand, the terminal leaves it out."""


def name(text: str) -> Cell:
    return Cell(text, "name")


@dataclass(frozen=True, slots=True)
class Row:
    """One load of one run."""

    labels: tuple[str, ...]
    measures: LoadMeasures


def label_columns(summary: Summary) -> tuple[str, ...]:
    """What tells the rows apart: only that of which there are several."""
    runs = summary.runs
    several = {
        "side": len({run.side for run in runs}) > 1,
        "rate": any(run.rate is not None for run in runs),
        "seed": len({run.seed for run in runs}) > 1,
        "load": any(len(run.loads) > 1 for run in runs),
    }
    return tuple(label for label, is_several in several.items() if is_several) or ("load",)


def rows_of(summary: Summary) -> Iterator[Row]:
    columns = label_columns(summary)
    for run in by_rate(summary.runs):
        for load, measures in run.loads.items():
            known = _labels(run, load)
            yield Row(tuple(known[column] for column in columns), measures)


def by_rate(runs: Sequence[RunFigures]) -> list[RunFigures]:
    """As they were run, but those of a search from the lowest rate to the highest."""
    sides = list(dict.fromkeys(run.side for run in runs))
    if all(run.rate is None for run in runs):
        return list(runs)
    return sorted(runs, key=lambda run: (sides.index(run.side), run.rate or 0.0))


def _labels(run: RunFigures, load: str) -> dict[str, str]:
    rate = "" if run.rate is None else f"{run.rate:.4g}"
    return {"side": run.side, "rate": rate, "seed": str(run.seed), "load": load}


def throughput(summary: Summary) -> Table:
    rows = list(rows_of(summary))
    some_left = any(row.measures.outcomes.get("left") for row in rows)
    counts = ("sent", "finished", "missed", *(("left",) if some_left else ()))
    columns = [
        Columns("", label_columns(summary)),
        Columns("requests", counts),
        Columns("each second", ("requests", "output tokens", "steady", "all tokens")),
    ]
    extra: list[tuple[str, str, Callable[[LoadMeasures], str]]] = []
    if summary.targets.any:
        extra.append(("targets", "attainment", lambda m: share(m.attainment)))
        extra.append(("targets", "goodput, 1/s", lambda m: number(m.goodput)))
    extra.append(("server", "most running", lambda m: number(m.most_running)))
    if any(row.measures.cached_share is not None for row in rows):
        extra.append(("server", "prompt cached", lambda m: share(m.cached_share)))
    if any(row.measures.acceptance_length is not None for row in rows):
        extra.append(("server", "acceptance length", lambda m: number(m.acceptance_length)))
    for heading in dict.fromkeys(heading for heading, _name, _of in extra):
        names = tuple(column for group, column, _of in extra if group == heading)
        columns.append(Columns(heading, names))
    return Table(
        title="Throughput",
        columns=tuple(columns),
        rows=tuple(
            (
                *map(name, row.labels),
                *_counts(row.measures, some_left),
                *_speeds(row.measures),
                *(Cell(of(row.measures)) for _group, _name, of in extra),
            )
            for row in rows
        ),
        notes=(
            "Steady: output tokens a second from the end of the first answer to the last sending, "
            "without filling up and running empty.",
        ),
    )


def _counts(measures: LoadMeasures, some_left: bool) -> tuple[Cell, ...]:  # noqa: FBT001
    missed = Cell(f"{measures.misses:,}", "bad" if measures.misses else "")
    left = (Cell(f"{measures.outcomes.get('left', 0):,}"),) if some_left else ()
    finished = measures.outcomes.get("finished", 0)
    return (Cell(f"{measures.issued:,}"), Cell(f"{finished:,}"), missed, *left)


def _speeds(measures: LoadMeasures) -> tuple[Cell, ...]:
    speeds = (
        measures.request_rate,
        measures.output_tokens_s,
        measures.steady_tokens_s,
        measures.total_tokens_s,
    )
    return tuple(Cell(number(speed)) for speed in speeds)


_Latency = tuple[str, str, tuple[str, ...]]
"""Measure, heading, stats."""
LATENCIES: tuple[_Latency, ...] = (
    ("ttft_ms", "TTFT", ("p50", "p90", "p99")),
    ("tpot_ms", "TPOT", ("p50", "p90", "p99")),
    ("itl_token_ms", "ITL, by token", ("p50", "p99", "max")),
    ("itl_chunk_ms", "ITL, by chunk", ("p50", "p99", "max")),
    ("e2e_ms", "E2E", ("p50", "p90", "p99")),
    ("lag_ms", "lag", ("p99", "max")),
)


def latency(summary: Summary) -> Table:
    rows = list(rows_of(summary))
    shown = [one for one in LATENCIES if any(one[0] in r.measures.distributions for r in rows)]
    shown = _without_twin(shown, rows)
    body = tuple(
        (
            *map(name, row.labels),
            *(
                _percentile(row.measures.distributions.get(measure), stat)
                for measure, _heading, stats in shown
                for stat in stats
            ),
        )
        for row in rows
    )
    unfirm = any(cell.kind == "unfirm" for row in body for cell in row)
    return Table(
        title="Latency, milliseconds",
        columns=(
            Columns("", label_columns(summary)),
            *(
                Columns(heading, tuple(stat.replace("p", "P") for stat in stats))
                for _measure, heading, stats in shown
            ),
        ),
        rows=body,
        notes=(
            *((UNFIRM_NOTE,) if unfirm else ()),
            "From the moment a request was meant to be sent, so that lag counts: what the client "
            "itself was late by.",
        ),
    )


def _without_twin(shown: Sequence[_Latency], rows: Sequence[Row]) -> list[_Latency]:
    """Where every chunk brought one token, the gaps of chunks are those of tokens."""
    same = all(_same_gaps(row.measures) for row in rows)
    return [one for one in shown if not (same and one[0] == "itl_chunk_ms")]


def _same_gaps(measures: LoadMeasures) -> bool:
    """But for the few of streams that broke off, whose tokens nobody counted."""
    chunk = measures.distributions.get("itl_chunk_ms")
    token = measures.distributions.get("itl_token_ms")
    if chunk is None or token is None:
        return chunk is token
    unfinished = measures.issued - measures.outcomes.get("finished", 0)
    by_chunk = token.requests + unfinished >= chunk.requests
    return by_chunk and abs(chunk.count - token.count) <= 0.01 * chunk.count


def _percentile(found: Distribution | None, stat: str) -> Cell:
    if found is None:
        return Cell(number(None))
    firm = {"p90": found.p90_is_firm, "p99": found.p99_is_firm}.get(stat, True)
    values = {"p50": found.p50, "p90": found.p90, "p99": found.p99, "max": found.max}
    text = number(values[stat])
    return Cell(text) if firm else Cell(f"{UNFIRM}{text}", "unfirm")


def failures(summary: Summary) -> Table | None:
    if not summary.errors:
        return None
    total = sum(error.count for error in summary.errors)
    shown = len(summary.failures)
    return Table(
        title="Failures",
        columns=(Columns("", ("request", "ended at, s", "end", "status", "what was said")),),
        rows=tuple(
            (
                name(failure.request_id),
                Cell(f"{failure.at_s:.2f}"),
                Cell(failure.outcome),
                Cell(str(failure.status or "")),
                name(failure.error),
            )
            for failure in summary.failures
        ),
        notes=(f"{shown} of {total:,}",) if shown < total else (),
    )


def errors(summary: Summary) -> Table | None:
    if not summary.errors:
        return None
    return Table(
        title="What went wrong, and how often",
        columns=(Columns("", ("what was said", "requests")),),
        rows=tuple(
            (name(error.error or "nothing"), Cell(f"{error.count:,}"))
            for error in summary.errors[:_ERRORS]
        ),
    )


_ERRORS = 20


def server(summary: Summary) -> Table | None:
    """What the server's own metrics said, a column a run."""
    names = list(dict.fromkeys(figure for run in summary.runs for figure in run.server))
    if not names:
        return None
    told = label_columns(summary)
    headings = [
        " ".join(part for key, part in _labels(run, "").items() if key in told and part)
        for run in summary.runs
    ]
    return Table(
        title="The server's own metrics",
        columns=(Columns("", ("figure", *(heading or "value" for heading in headings))),),
        rows=tuple(
            (name(figure), *(Cell(number(run.server.get(figure))) for run in summary.runs))
            for figure in names
        ),
        folded=True,
    )
