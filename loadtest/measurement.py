"""One run of a scenario's loads against one server: what was seen, and every figure by name.

Names are `load.measure.stat` (`main.ttft_ms.p50`), `load.measure` (`all.output_tokens_s`),
`server.name` and `search.name`. Claims, comparisons and reports speak in these names alone. Pure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields

from loadtest.metrics import Distribution, LoadMeasures, Targets, measure
from loadtest.record import Record

ALL = "all"
"""All loads of a scenario together."""
SERVER = "server"
SEARCH = "search"
"""A whole search: its figures are those of no load."""
_STATS = ("mean", "p50", "p90", "p99", "max")


@dataclass(frozen=True, slots=True)
class Mark:
    """Something done to the server while it was measured."""

    at_s: float
    """Since the run began."""
    text: str


@dataclass(frozen=True, slots=True)
class Measurement:
    side: str
    """Of a comparison; else the address."""
    seed: int
    targets: Targets
    records: list[Record]
    rate: float | None = None
    """Of the arrivals, when a search set it."""
    server: Mapping[str, float] = field(default_factory=dict)
    """What the server's own metrics say of the run."""
    marks: tuple[Mark, ...] = ()
    broken_off: bool = False
    """Before all that was to be sent had ended: only what had ended is here."""

    def loads(self) -> dict[str, LoadMeasures]:
        """By load in the scenario's order, then ALL of them where there are several."""
        counted = self.counted
        names = list(dict.fromkeys(record.load for record in counted))
        found = {
            name: measure([r for r in counted if r.load == name], self.targets) for name in names
        }
        if len(found) != 1:
            found[ALL] = measure(counted, self.targets)
        return found

    @property
    def counted(self) -> list[Record]:
        return [record for record in self.records if record.counts]

    def values(self) -> dict[str, float]:
        """Every figure by its name; what does not exist has none."""
        found: dict[str, float] = {}
        for load, measures in self.loads().items():
            found.update((f"{load}.{name}", value) for name, value in figures(measures))
        found.update((f"{SERVER}.{name}", value) for name, value in self.server.items())
        return found


def figures(measures: LoadMeasures) -> Iterator[tuple[str, float]]:
    """Names without the load."""
    for column in fields(measures):
        value = getattr(measures, column.name)
        if isinstance(value, int | float):
            yield column.name, float(value)
    yield "misses", float(measures.misses)
    if measures.cached_share is not None:
        yield "cached_share", measures.cached_share
    for name, found in measures.distributions.items():
        yield from ((f"{name}.{stat}", _stat(found, stat)) for stat in _STATS)


def _stat(found: Distribution, stat: str) -> float:
    value = getattr(found, stat)
    assert isinstance(value, float)
    return value


LOWER_IS_BETTER = ("_ms.mean", "_ms.p50", "_ms.p90", "_ms.p99", "_ms.max", "misses")
HIGHER_IS_BETTER = (
    "_tokens_s",
    "request_rate",
    "attainment",
    "goodput",
    "knee",
    "acceptance_length",
    "cached_share",
)
SERVER_LOWER = ("kv_waste", "preemptions")
SERVER_HIGHER = ("prefix_hit_share",)
"""Of what servers say of themselves only these are good or bad by themselves."""


def better(name: str, ratio: float) -> bool | None:
    """Whether a figure that is `ratio` times another is the better one; None: neither, or nobody
    can say."""
    if ratio == 1:
        return None
    load, _dot, figure = name.partition(".")
    lower = SERVER_LOWER if load == SERVER else LOWER_IS_BETTER
    higher = SERVER_HIGHER if load == SERVER else HIGHER_IS_BETTER
    if figure.endswith(higher):
        return ratio > 1
    if figure.endswith(lower):
        return ratio < 1
    return None
