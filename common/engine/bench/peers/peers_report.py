"""The comparison as a table and as JSON: a line a case, a column a peer."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from rich import box
from rich.table import Table

from common.engine.bench.peers.cases import Case
from common.engine.bench.peers.pairs import Comparison

NOT_MEASURED = "not measured"
_NONE = "-"


def as_json(comparison: Comparison) -> dict[str, object]:
    return {**asdict(comparison), "name": comparison.case.name, "ratio": comparison.ratio}


def peers_table(
    cases: Sequence[Case], found: Sequence[Comparison], peers: Mapping[str, str | None]
) -> Table:
    """`peers`: what each says about itself; None where it was not measured."""
    said = [f"{name}: {about or NOT_MEASURED}" for name, about in peers.items()]
    table = Table(title="ours : peer, above 1 is faster", caption="\n".join(said), box=box.SIMPLE)
    for heading in ("case", "ours"):
        table.add_column(heading, no_wrap=True)
    for name in peers:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("against\nthe best", justify="right", no_wrap=True)
    by_place = {(one.case, one.peer): one for one in found}
    for case in cases:
        here = {name: by_place.get((case, name)) for name in peers}
        measured = [one for one in here.values() if one is not None and one.ours]
        ratios = [one.ratio for one in measured if one.ratio is not None]
        table.add_row(
            case.name,
            _value(measured[0].ours) if measured else _NONE,
            *(_cell(one) for one in here.values()),
            f"{min(ratios):.2f}x" if ratios else NOT_MEASURED,
        )
    return table


def _cell(one: Comparison | None) -> str:
    if one is None or one.ratio is None:
        return _NONE
    return f"{_value(one.theirs)} {one.ratio:.2f}x"


def _value(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f}"
