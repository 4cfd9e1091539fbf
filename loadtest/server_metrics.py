"""Figures from what a server's Prometheus pages said during a run: any server's, by the same names.

A counter gives its increase under its own name, without `_total`; a histogram or summary its mean
over the run; a gauge `.mean` and `.max` over the moments it was read. Values are summed over
processes and labels but for KEPT_LABELS, whose values follow the name after a dot. What the servers
that we know name differently has a common name in LEVELS or FLOWS, which is the one place that
knows their names. Pure.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

KEPT_LABELS = ("state", "source", "cache_source", "outcome", "finished_reason", "reason")
_SHARES = ("_ratio", "_perc", "_usage", "_rate")
"""Gauges of which the sum over processes means nothing: their mean is taken instead."""
_IGNORED = ("_created", "_info", "_max_fds")
_START = "process_start_time_seconds"

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of what is there of these, whatever follows their names after a dot."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Share:
    part: Total
    whole: Total


def _total(*names: str) -> Total:
    return Total(names)


LEVELS: Mapping[str, tuple[Total | Share, ...]] = {
    "requests_running": (
        _total("twinfleet_worker_requests_running"),
        _total("vllm:num_requests_running"),
        _total("sglang:num_running_reqs"),
    ),
    "requests_waiting": (
        _total("twinfleet_worker_requests_waiting", "twinfleet_router_queue_length"),
        _total("vllm:num_requests_waiting"),
        _total("sglang:num_queue_reqs"),
    ),
    "kv_usage": (
        Share(_total("twinfleet_worker_kv_blocks_used"), _total("twinfleet_worker_kv_blocks")),
        _total("vllm:kv_cache_usage_perc"),
        _total("sglang:token_usage"),
    ),
}
"""From gauges of one moment, by the first way that a server has the names for."""

FLOWS: Mapping[str, tuple[Total | Share, ...]] = {
    "prefix_hit_share": (
        Share(_total("twinfleet_gateway_cached_tokens"), _total("twinfleet_gateway_prompt_tokens")),
        Share(_total("vllm:prompt_tokens_cached"), _total("vllm:prompt_tokens")),
        Share(_total("vllm:prefix_cache_hits"), _total("vllm:prefix_cache_queries")),
        Share(_total("sglang:cached_tokens"), _total("sglang:prompt_tokens")),
    ),
    "preemptions": (_total("twinfleet_worker_preemptions"), _total("vllm:num_preemptions")),
    "kv_waste": (
        Share(
            _total(
                "twinfleet_worker_kv_token_seconds.tail",
                "twinfleet_worker_kv_token_seconds.reserved",
            ),
            _total("twinfleet_worker_kv_token_seconds"),
        ),
    ),
}
"""From increases over the run, likewise."""


@dataclass(slots=True)
class Page:
    """What one process said at one moment. By (name of the figure, all labels)."""

    counters: dict[tuple[str, Labels], float] = field(default_factory=dict)
    sums: dict[tuple[str, Labels], float] = field(default_factory=dict)
    counts: dict[tuple[str, Labels], float] = field(default_factory=dict)
    gauges: dict[tuple[str, Labels], float] = field(default_factory=dict)
    started: float = 0.0
    """When the process did; 0: not told."""


Moment = Mapping[str, Page]
"""By process, those that answered."""


def thinned(text: str) -> str:
    """Without what is most of a page and gives no figure: buckets and explanations."""
    lines = text.splitlines(keepends=True)
    return "".join(
        line for line in lines if "_bucket{" not in line and not line.startswith("# HELP")
    )


def parse_page(text: str) -> Page:
    """Raises ValueError when it is none."""
    page = Page()
    for family in text_string_to_metric_families(text):
        if family.name.endswith(_START):
            page.started = max((sample.value for sample in family.samples), default=0.0)
        elif not family.name.endswith(_IGNORED) and not family.name.startswith("python_"):
            for sample in family.samples:
                _put(page, family.type, family.name, sample)
    return page


def _put(page: Page, kind: str, family: str, sample: Sample) -> None:
    kept = [value for label in KEPT_LABELS if (value := sample.labels.get(label))]
    key = (".".join([family, *kept]), tuple(sorted(sample.labels.items())))
    match kind:
        case "counter":
            page.counters[key] = sample.value
        case "gauge":
            page.gauges[key] = sample.value
        case "histogram" | "summary":
            if sample.name == family + "_sum":
                page.sums[key] = sample.value
            elif sample.name == family + "_count":
                page.counts[key] = sample.value
        case _:
            pass


def metric_figures(moments: Sequence[Moment]) -> dict[str, float]:
    """Of a run: the first moment is just before it, the last just after. Both count for increases;
    for gauges only those between, if there are any."""
    flows = _increases(moments, lambda page: page.counters)
    found = dict(flows)
    sums = _increases(moments, lambda page: page.sums)
    for name, count in _increases(moments, lambda page: page.counts).items():
        if count > 0:
            found[f"{name}.mean"] = sums.get(name, 0.0) / count
    found.update(_levels([_gauges(moment) for moment in moments[1:-1] or moments]))
    for name, ways in FLOWS.items():
        value = _first(ways, flows)
        if value is not None:
            found[name] = value
    return found


def _levels(moments: Iterable[Mapping[str, float]]) -> Iterator[tuple[str, float]]:
    read: dict[str, list[float]] = defaultdict(list)
    for gauges in moments:
        for name, value in gauges.items():
            read[name].append(value)
        for name, ways in LEVELS.items():
            derived = _first(ways, gauges)
            if derived is not None:
                read[name].append(derived)
    for name, values in read.items():
        yield f"{name}.mean", sum(values) / len(values)
        yield f"{name}.max", max(values)


def _gauges(moment: Moment) -> dict[str, float]:
    found: dict[str, list[float]] = defaultdict(list)
    for page in moment.values():
        for (name, _labels), value in page.gauges.items():
            if value == value:
                found[name].append(value)
    return {
        name: sum(values) / (len(values) if name.endswith(_SHARES) else 1)
        for name, values in found.items()
    }


def _increases(
    moments: Sequence[Moment], of: Callable[[Page], Mapping[tuple[str, Labels], float]]
) -> dict[str, float]:
    """From a page to the next of the same process, so that one that starts again loses only what
    it did not live to tell. A process first seen on the way has no increase before that."""
    found: dict[str, float] = defaultdict(float)
    last: dict[str, Page] = {}
    for moment in moments:
        for process, page in moment.items():
            before = last.get(process, page)
            earlier = of(before) if before.started == page.started else {}
            for key, value in of(page).items():
                then = earlier.get(key, 0.0)
                found[key[0]] += value - then if value >= then else value
            last[process] = page
    return dict(found)


def _first(ways: Iterable[Total | Share], values: Mapping[str, float]) -> float | None:
    return next((value for way in ways if (value := _value(way, values)) is not None), None)


def _value(way: Total | Share, values: Mapping[str, float]) -> float | None:
    if isinstance(way, Total):
        there = [
            value for name, value in values.items()
            if any(name == wanted or name.startswith(f"{wanted}.") for wanted in way.names)
        ]  # fmt: skip
        return sum(there) if there else None
    part, whole = _value(way.part, values), _value(way.whole, values)
    return part / whole if part is not None and whole else None
