"""Which measurements are made, with which seeds and rates, and what is left when one is not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Any

import pytest

from loadtest.experiment import Contender, Experiment, Keep
from loadtest.knee import Knee
from loadtest.run import Server
from loadtest.scenario import Scenario
from loadtest.search import Goodput, Verdict
from tests.support.load_plans import load, scenario
from tests.support.load_records import Server as Simulated
from tests.support.load_records import measurement
from tests.support.sim.loop import on_a_warped_clock

GOODPUT = {"kind": "goodput", "low": 1, "high": 64, "precision": 0.3}
TARGETS = {"ttft_ms": 500, "tpot_ms": 50}
ONE = Server("one", "http://one")


def searched(search: dict[str, Any], **more: Any) -> Scenario:
    poisson = load({"kind": "poisson", "rate": 1.0}, sessions=3)
    return scenario(poisson, search=search, targets=TARGETS, **more)


def plain(**more: Any) -> Scenario:
    return scenario(load({"kind": "poisson", "rate": 4.0}, sessions=3), targets=TARGETS, **more)


class Measures:
    """Simulated servers by name; `breaks` is the number of the run that is broken off."""

    def __init__(self, breaks: int = 0, **servers: Simulated) -> None:
        self.asked: list[tuple[str, float, int]] = []
        self.open: list[str] = []
        self._servers = servers
        self._breaks = breaks

    async def __call__(self, server: Server, asked: Scenario, seed: int, keep: Keep) -> None:
        arrivals = asked.loads[0].arrivals
        rate = arrivals.model_dump()["rate"]
        self.asked.append((server.name, rate, seed))
        found = measurement(
            server.name, rate=rate, seed=seed, count=80, server=self._servers.get(server.name)
        )
        keep(found)
        if len(self.asked) == self._breaks:
            raise asyncio.CancelledError

    def contender(self, name: str, asked: Scenario) -> Contender:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Server]:
            self.open.append(name)
            try:
                yield Server(name, f"http://{name}")
            finally:
                self.open.remove(name)

        return Contender(name, asked, opened)


def contenders(measures: Measures, asked: Scenario) -> list[Contender]:
    return [measures.contender(name, asked) for name in ("new", "old")]


@on_a_warped_clock
async def test_a_plain_scenario_is_one_run() -> None:
    measures = Measures()
    experiment = Experiment(plain(), 7, measures)
    await experiment.alone(ONE)
    assert measures.asked == [("one", 4.0, 7)]
    assert [(run.side, run.rate) for run in experiment.runs] == [("one", None)]
    assert experiment.search is None
    assert experiment.comparison() is None


@on_a_warped_clock
async def test_a_sweep_measures_each_rate_with_a_seed_of_its_own() -> None:
    measures = Measures()
    experiment = Experiment(searched({"kind": "sweep", "rates": [4, 2, 30]}), 7, measures)
    await experiment.alone(ONE)
    assert measures.asked == [("one", 4.0, 7000), ("one", 2.0, 7001), ("one", 30.0, 7002)]
    assert [run.rate for run in experiment.runs] == [4.0, 2.0, 30.0]
    assert isinstance(experiment.search, Knee)
    assert [point.rate for point in experiment.search.points] == [2.0, 4.0, 30.0]


@on_a_warped_clock
async def test_a_search_for_goodput_goes_on_until_it_is_found() -> None:
    measures = Measures(one=Simulated(slots=4))
    experiment = Experiment(searched(GOODPUT), 7, measures)
    await experiment.alone(ONE)
    rates = [rate for _name, rate, _seed in measures.asked]
    seeds = [seed for _name, _rate, seed in measures.asked]
    assert rates[0] == 8.0
    assert seeds == list(range(7000, 7000 + len(seeds)))
    assert isinstance(experiment.search, Goodput)
    assert experiment.search.verdict is Verdict.FOUND
    assert [run.rate for run in experiment.runs] == rates


@on_a_warped_clock
async def test_a_search_that_was_broken_off_tells_what_it_knows() -> None:
    experiment = Experiment(searched(GOODPUT), 7, Measures(breaks=2))
    with pytest.raises(asyncio.CancelledError):
        await experiment.alone(ONE)
    assert [run.rate for run in experiment.runs] == [8.0, pytest.approx(8 / 8**0.5)]
    assert isinstance(experiment.search, Goodput)
    assert experiment.search.verdict is Verdict.OPEN
    assert [point.rate for point in experiment.search.points] == [8.0]


@on_a_warped_clock
async def test_sides_take_turns_and_share_the_seeds_of_their_pair() -> None:
    measures = Measures(new=Simulated(prefill_s=0.01))
    experiment = Experiment(plain(pairs=3), 7, measures)
    await experiment.compared(contenders(measures, experiment.scenario))
    by_seed = groupby(measures.asked, key=lambda one: one[2])
    order = [(seed, [name for name, _rate, _seed in pair]) for seed, pair in by_seed]
    assert order == [(7, ["new", "old"]), (8, ["old", "new"]), (9, ["old", "new"])]
    assert measures.open == []
    comparison = experiment.comparison()
    assert comparison is not None
    assert (comparison.candidate, comparison.pairs) == ("new", 3)
    (against,) = comparison.against
    mean = against.figures["main.ttft_ms.p50"].mean
    assert mean is not None
    assert mean < 0.8


@on_a_warped_clock
async def test_a_pair_that_is_not_whole_is_not_compared() -> None:
    measures = Measures(breaks=4)
    experiment = Experiment(plain(pairs=3), 7, measures)
    with pytest.raises(asyncio.CancelledError):
        await experiment.compared(contenders(measures, experiment.scenario))
    assert len(experiment.runs) == 4
    assert measures.open == []
    comparison = experiment.comparison()
    assert comparison is not None
    assert comparison.pairs == 1


@on_a_warped_clock
async def test_without_a_whole_pair_there_is_no_comparison() -> None:
    measures = Measures(breaks=1)
    experiment = Experiment(plain(), 7, measures)
    with pytest.raises(asyncio.CancelledError):
        await experiment.compared(contenders(measures, experiment.scenario))
    assert len(experiment.runs) == 1
    assert experiment.comparison() is None


@on_a_warped_clock
async def test_of_searches_their_results_alone_are_compared() -> None:
    measures = Measures(new=Simulated(slots=32), old=Simulated(slots=4))
    experiment = Experiment(searched(GOODPUT, pairs=1), 7, measures)
    await experiment.compared(contenders(measures, experiment.scenario))
    comparison = experiment.comparison()
    assert comparison is not None
    figures = comparison.against[0].figures
    assert list(figures) == ["search.goodput"]
    assert (figures["search.goodput"].mean or 0) > 2
    assert experiment.search is None


@on_a_warped_clock
@pytest.mark.parametrize(
    "search", [GOODPUT, {"kind": "sweep", "rates": [2, 4, 8]}], ids=["goodput", "sweep"]
)
async def test_a_side_whose_search_found_nothing_is_worse_than_one_that_found_something(
    search: dict[str, Any],
) -> None:
    measures = Measures(new=Simulated(fails=1.0), old=Simulated())
    experiment = Experiment(searched(search, pairs=2), 7, measures)
    await experiment.compared(contenders(measures, experiment.scenario))
    comparison = experiment.comparison()
    assert comparison is not None
    (ratio,) = comparison.against[0].figures.values()
    assert (ratio.lost, ratio.pairs) == (2, 0)
    assert comparison.exit_code(0.05) == 1


@on_a_warped_clock
async def test_each_side_is_measured_with_its_own_scenario() -> None:
    measures = Measures()
    fast = scenario(load({"kind": "poisson", "rate": 9.0}, sessions=3), targets=TARGETS)
    experiment = Experiment(plain(pairs=1), 7, measures)
    await experiment.compared(
        [measures.contender("new", fast), measures.contender("old", experiment.scenario)]
    )
    assert measures.asked == [("new", 9.0, 7), ("old", 4.0, 7)]
