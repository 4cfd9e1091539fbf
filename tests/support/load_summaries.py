"""Summaries of made-up runs: one server, a sweep, a search for goodput, and two sides."""

from collections.abc import Sequence

from loadtest.comparison import Taken, compare, taken
from loadtest.knee import find_knee, point
from loadtest.measurement import Mark, Measurement
from loadtest.record import Outcome
from loadtest.scenario import Claim, Search
from loadtest.search import GoodputSearch, attained
from loadtest.summary import Origin, Summary, summarize
from tests.support.load_records import Server, measurement

HOSTILE = '<img src=x onerror=alert(1)></script><script>alert("2")</script>'
ORIGIN = Origin(
    version="0.1.0",
    at="2026-01-02T03:04:05+00:00",
    command=["loadtest", "run", "chat"],
    target="http://127.0.0.1:8000",
    model="tiny",
    machine={"processor": "a processor", "cores": 2, "memory_bytes": 1 << 34, "load_average": 0.1},
    revision={"commit": "0123456789abcdef", "modified": True},
    scenario={"name": "chat", "description": "Short chats.", "warmup": 2},
)
Made = tuple[Summary, list[Measurement]]


def made(measurements: Sequence[Measurement]) -> Made:
    return summarize(ORIGIN, measurements), list(measurements)


def one(count: int = 60) -> Made:
    marks = (Mark(3.0, "kill decode-0"),)
    found = measurement(count=count, server=Server(fails=0.2, ledger=True), marks=marks)
    found.records[0].outcome = Outcome.FAILED
    found.records[0].error = HOSTILE
    return made([found])


def swept(rates: Sequence[float] = (2, 6, 12)) -> Made:
    runs = [measurement(count=40, rate=rate, searched=True) for rate in rates]
    return summarize(ORIGIN, runs, search=find_knee([point(run) for run in runs])), runs


def searched() -> Made:
    search = GoodputSearch(Search(kind="goodput", low=2, high=14, precision=0.5))
    runs = []
    while (rate := search.next_rate()) is not None:
        runs.append(measurement(count=40, rate=rate, searched=True))
        search.observe(attained(runs[-1]))
    return summarize(ORIGIN, runs, search=search.result()), runs


def compared(pairs: int = 3) -> Made:
    claims = [
        Claim(text="Half.", measure="main.ttft_ms.p50", side="new", against="old", at_most=0.5),
        Claim(text="Ten.", measure="main.output_tokens_s", side="new", against="old", at_least=10),
    ]
    runs, found = [], []
    for seed in range(pairs):
        new = measurement("new", seed=seed, rate=6, server=Server(prefill_s=0.02))
        old = measurement("old", seed=seed, rate=6, server=Server(slots=6))
        runs += [new, old]
        found.append({"new": taken(new), "old": taken(old)})
    return summarize(ORIGIN, runs, comparison=compare(found, "new", claims)), runs


def searches_compared() -> Made:
    """Of two sides what a search on each came to; the runs are at rates of its own choosing."""
    runs, pairs = [], []
    for seed in range(3):
        for side in ("new", "old"):
            runs += [
                measurement(side, seed=seed, rate=rate, count=20, searched=True) for rate in (2, 4)
            ]
        pairs.append(
            {
                "new": Taken({"search.knee": 4.0 + seed / 10}, {}),
                "old": Taken({"search.knee": 2.0}, {}),
            }
        )
    return summarize(ORIGIN, runs, comparison=compare(pairs, "new")), runs
