"""Which measurements a scenario asks for, one after another, and what they come to.

A single run; a search, which is several runs of one server at rates of its own choosing; or a
comparison, which takes every side in turn, pair by pair, each with a run or a search. Seeds never
repeat on one server, so no prompt is met again that an earlier run left in a cache; the sides of a
pair have the same seeds. What there is holds at any moment, so that also an experiment that was
broken off has its results.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from itertools import count

from loadtest.comparison import Comparison, Pair, Taken, compare, taken
from loadtest.knee import Knee, find_knee, point
from loadtest.measurement import SEARCH, Measurement
from loadtest.ratios import order
from loadtest.run import Server
from loadtest.scenario import Scenario
from loadtest.search import Goodput, GoodputSearch, attained

SEEDS_OF_A_SEARCH = 1000
"""Runs of one search, at most."""
GOODPUT = f"{SEARCH}.goodput"
KNEE = f"{SEARCH}.knee"
"""Figures of a whole search; claims may name them."""

Keep = Callable[[Measurement], None]
Measure = Callable[[Server, Scenario, int, Keep], Awaitable[None]]
"""Of a server, a scenario and a seed. Keeps one measurement, also when it is broken off."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A side of a comparison: how it is reached, and the scenario as it sees it."""

    name: str
    scenario: Scenario
    open: Callable[[], AbstractAsyncContextManager[Server]]


class Experiment:
    """`runs` are all measurements, in their order; `search` is that of a server alone."""

    def __init__(self, scenario: Scenario, seed: int, measure: Measure) -> None:
        self.scenario = scenario
        self._seed = seed
        self._measure = measure
        self._pairs: list[Pair] = []
        self._candidate = ""
        self.runs: list[Measurement] = []
        self.search: Goodput | Knee | None = None

    async def alone(self, server: Server) -> None:
        """A run, or the search that the scenario asks for."""
        if self.scenario.search is None:
            await self._run(self.scenario, server, self._seed)
            return
        async for found in self._searched(self.scenario, server, self._seed):
            self.search = found

    async def compared(self, contenders: Sequence[Contender]) -> None:
        """The first contender is the candidate. Each measurement has a server of its own where the
        contender makes one."""
        by_name = {contender.name: contender for contender in contenders}
        self._candidate = contenders[0].name
        for number in range(self.scenario.pairs):
            pair: dict[str, Taken] = {}
            for name in order(list(by_name), number):
                scenario = by_name[name].scenario
                async with by_name[name].open() as server:
                    pair[name] = await self._taken(scenario, server, self._seed + number)
            self._pairs.append(pair)

    def comparison(self) -> Comparison | None:
        """Of the pairs that are whole."""
        if not self._pairs:
            return None
        return compare(self._pairs, self._candidate, self.scenario.claims)

    async def _taken(self, scenario: Scenario, server: Server, seed: int) -> Taken:
        """Of a search its result alone: what two sides did at two rates is not to be compared."""
        if scenario.search is None:
            return taken(await self._run(scenario, server, seed))
        values: dict[str, float] = {}
        async for found in self._searched(scenario, server, seed):
            # Nothing found is less than all that was tried: none, which is worse than any.
            values = {GOODPUT if isinstance(found, Goodput) else KNEE: found.rate or 0.0}
        return Taken(values, {})

    async def _searched(
        self, scenario: Scenario, server: Server, seed: int
    ) -> AsyncIterator[Goodput | Knee]:
        """After each run what the search comes to so far."""
        search = scenario.search
        assert search is not None
        seeds = count(seed * SEEDS_OF_A_SEARCH)
        if search.kind == "sweep":
            points = []
            for each in search.rates:
                points.append(point(await self._run(scenario, server, next(seeds), each)))
                yield find_knee(points)
            return
        goodput = GoodputSearch(search)
        while (rate := goodput.next_rate()) is not None:
            goodput.observe(attained(await self._run(scenario, server, next(seeds), rate)))
            yield goodput.result()

    async def _run(
        self, scenario: Scenario, server: Server, seed: int, rate: float | None = None
    ) -> Measurement:
        def keep(run: Measurement) -> None:
            self.runs.append(replace(run, rate=rate))

        asked = scenario if rate is None else scenario.at_rate(rate)
        await self._measure(server, asked, seed, keep)
        return self.runs[-1]
