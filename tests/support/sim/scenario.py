"""One seed, one run: load on a cluster whose processes die, and what the oracle says of it."""

import asyncio
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import structlog

from tests.support.sim import oracle
from tests.support.sim.faults import Fault, Kind, faults
from tests.support.sim.life import SimLoop, life_of
from tests.support.sim.load import End, Outcome, Request, ask, requests
from tests.support.sim.trace import Trace
from tests.support.sim.world import GATEWAY, Shape, World, drawn

LEASES_S = 25.0
"""Longer than any lease, resend or give-up of a process that has work."""
PATIENCE_S = 120.0
"""For all requests to end after the last one began."""


@dataclass(frozen=True)
class Scenario:
    seed: int
    faults: bool = False
    plan: tuple[Fault, ...] = ()
    """These, and with `faults` also some drawn from the seed."""
    seconds: float = 60.0
    shape: Shape | None = None
    """None: drawn from the seed, too."""
    spoil: Callable[[World], None] = lambda world: None
    """For planted mutants: called when the cluster is up."""
    early: bool = False
    """Also ask the oracle as soon as the last request has ended; see Report.early."""

    def __str__(self) -> str:
        return f"seed {self.seed} with{'' if self.faults else 'out'} faults"


@dataclass
class Report:
    problems: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    trace: Trace = field(default_factory=Trace)
    virtual_s: float = 0.0

    def count(self, end: End) -> int:
        return sum(outcome.end is end for outcome in self.outcomes)

    @property
    def finished(self) -> int:
        return self.count(End.FINISHED)

    @property
    def left(self) -> int:
        return self.count(End.LEFT)

    def told(self, scenario: Scenario) -> str:
        """What to print when it went wrong."""
        return "\n".join([f"{scenario}:", *self.problems[:20], "...", *self.trace.lines])


def run(scenario: Scenario) -> Report:
    """The whole simulation. Raises nothing for what the product does wrong: see the report."""
    report = Report()
    rng = Random(f"{scenario.seed}/loop")
    with (
        _logs_into(report.trace),
        asyncio.Runner(loop_factory=lambda: SimLoop(lambda: rng.uniform(0.0, 0.0002))) as runner,
    ):
        loop = runner.get_loop()
        loop.set_exception_handler(lambda _, context: _crashed(report, context))
        runner.run(_Play(scenario, report).run())
        report.virtual_s = loop.time()
    return report


class _Play:
    def __init__(self, scenario: Scenario, report: Report) -> None:
        self._scenario = scenario
        self._report = report
        self._seed = str(scenario.seed)
        self.world = World(self._seed, scenario.shape or drawn(self._seed), report.trace)

    async def run(self) -> None:
        world, scenario, report = self.world, self._scenario, self._report
        for name in world.shape.names:
            await world.boot(name)
        await self._until(self._ready, 10.0, "the cluster comes up")
        scenario.spoil(world)
        load = requests(self._seed, scenario.seconds)
        busy = [request.at for request in load]
        plan = list(scenario.plan)
        if scenario.faults and busy:
            plan += faults(self._seed, self.world.shape, busy)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._strike(plan))
            group.create_task(self._load(load))
        await self._until(self._all_ended, PATIENCE_S, "every request ends")
        if scenario.early:
            report.early += oracle.of_quiet_cluster(world)
        await asyncio.sleep(LEASES_S)
        report.problems += oracle.of_requests(world, report.outcomes)
        report.problems += oracle.of_quiet_cluster(world)
        for outcome in report.outcomes:
            what = f"{outcome.end.value} {outcome.failure} {outcome.texts}"
            report.trace.note(outcome.ended_at, outcome.request.name, what)
        world.close()

    def _ready(self) -> bool:
        gateway = self.world.gateway
        return gateway is not None and gateway.desk.ready

    def _all_ended(self) -> bool:
        return all(outcome.end is not End.OPEN for outcome in self._report.outcomes)

    async def _until(self, condition: Callable[[], bool], limit_s: float, what: str) -> None:
        end = self.world.now + limit_s
        while not condition():
            if self.world.now > end:
                self._report.problems.append(f"{limit_s} s were not enough: {what}")
                return
            await asyncio.sleep(0.05)

    async def _strike(self, plan: Sequence[Fault]) -> None:
        async with asyncio.TaskGroup() as group:
            for fault in plan:
                await asyncio.sleep(max(0.0, fault.at - self.world.now))
                running = self.world.running.get(fault.name)
                if running is not None and not running.troubled:
                    group.create_task(self._trouble(fault))

    async def _trouble(self, fault: Fault) -> None:
        running = self.world.running[fault.name]
        running.troubled = True
        match fault.kind:
            case Kind.KILL:
                self.world.kill(fault.name)
                await asyncio.sleep(fault.lasts_s)
                await self.world.boot(fault.name)
            case Kind.FREEZE:
                self.world.freeze(fault.name)
                await asyncio.sleep(fault.lasts_s)
                self.world.thaw(fault.name)
                running.troubled = False
            case Kind.RESTART:
                await self.world.retire(fault.name)
                await asyncio.sleep(fault.lasts_s)
                await self.world.boot(fault.name)

    async def _load(self, load: Sequence[Request]) -> None:
        async with asyncio.TaskGroup() as group:
            for request in load:
                await asyncio.sleep(max(0.0, request.at - self.world.now))
                outcome = Outcome(request)
                self._report.outcomes.append(outcome)
                group.create_task(self._call(outcome))

    async def _call(self, outcome: Outcome) -> None:
        """A frozen gateway takes the call when it thaws, if it lives to see that."""
        running, gateway = self.world.running.get(GATEWAY), self.world.gateway
        while running is not None and running.life.frozen:
            await asyncio.sleep(0.05)
        if running is None or gateway is None or not running.life.alive:
            outcome.close(End.UNREACHED, self.world.now)
            return
        running.life.spawn(ask(gateway, outcome), outcome.request.name)


def _crashed(report: Report, context: dict[str, Any]) -> None:
    """In production any of these ends the process."""
    error = context.get("exception")
    life = life_of()
    who = life.me if life is not None else "?"
    report.problems.append(f"{who}: {context['message']}: {error!r}")
    report.trace.tell(0.0, str(who), f"*** {error!r}")


@contextmanager
def _logs_into(trace: Trace) -> Iterator[None]:
    """Keep what the services log, with the virtual time, for the report of a failure."""

    def keep(logger: object, method: str, event: structlog.typing.EventDict) -> Any:
        life = life_of()
        now = asyncio.get_running_loop().time()
        words = " ".join(f"{name}={value}" for name, value in event.items())
        trace.tell(now, str(life.me.name) if life is not None else "-", words)
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[keep],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)
        gc.collect()
