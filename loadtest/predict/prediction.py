"""A scenario's sides, simulated instead of measured; all that follows is the same code.

A `Predictor` gives `experiment` its contenders and its measure function: the same arrivals, lengths
and seeds, and the same records at the end, on a clock that nobody waits for.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from common.engine.bench.costs.step_costs import StepCosts
from loadtest.errors import LoadTestError
from loadtest.experiment import Contender, Experiment, Keep
from loadtest.measurement import Measurement
from loadtest.plan import Plan, warmup_sessions
from loadtest.predict.predicted_side import cluster_plan
from loadtest.predict.simulated_clients import SimulatedClients
from loadtest.predict.simulated_cluster import ClusterPlan, SimulatedCluster
from loadtest.predict.surroundings import Surroundings
from loadtest.predict.virtual_clock import VirtualClock
from loadtest.run import LEAD_S, Server
from loadtest.scenario import Scenario, Side
from loadtest.writer import WordWriter


@dataclass(frozen=True, slots=True)
class Predictor:
    costs: StepCosts
    around: Surroundings
    plans: Mapping[str, ClusterPlan]
    """By side."""

    @classmethod
    def of_sides(
        cls, sides: tuple[Side, ...], costs: StepCosts, around: Surroundings
    ) -> "Predictor":
        """Raises LoadTestError."""
        return cls(costs, around, {side.name: cluster_plan(side, costs) for side in sides})

    @property
    def target(self) -> str:
        """What stands where a measurement names its server."""
        return f"predicted from {self.costs.label}: {', '.join(self.plans)}"

    def contenders(self, scenario: Scenario) -> list[Contender]:
        return [
            Contender(side.name, scenario.for_side(side), partial(_nothing, side.name))
            for side in scenario.sides
        ]

    async def carry_out(self, experiment: Experiment) -> None:
        """All sides in turn, or the only one."""
        scenario = experiment.scenario
        if scenario.sides:
            await experiment.compared(self.contenders(scenario))
            return
        (name,) = self.plans
        await experiment.alone(Server(name, ""))

    async def measure(self, server: Server, scenario: Scenario, seed: int, keep: Keep) -> None:
        """An `experiment.Measure`."""
        keep(self.predict(server.name, scenario, seed))

    def predict(self, side: str, scenario: Scenario, seed: int) -> Measurement:
        """Raises LoadTestError for what is not predicted."""
        if scenario.faults:
            raise LoadTestError("faults are not predicted: measure them")
        writer, clock = WordWriter(), VirtualClock()
        cluster = SimulatedCluster(self.plans[side], self.costs, self.around, clock)
        first = scenario.loads[0]
        warm = SimulatedClients(cluster, clock, scenario.request, 0.0)
        warm.warm_up(first.name, warmup_sessions(first, seed, scenario.warmup, writer))
        begins_s = clock.now + LEAD_S
        workers = [*cluster.prefill, *cluster.decode]
        before = {worker.plan.name: worker.busy_s for worker in workers}
        clients = SimulatedClients(cluster, clock, scenario.request, begins_s)
        clients.run(Plan.made(scenario.loads, seed, writer))
        last_s = max(record.scheduled_s for record in clients.records)
        return Measurement(
            side=side,
            seed=seed,
            targets=scenario.targets,
            records=clients.records,
            server={
                f"busy.{worker.plan.name}": (worker.busy_s - before[worker.plan.name])
                / max(last_s, clock.now - begins_s)
                for worker in workers
            },
        )


@asynccontextmanager
async def _nothing(name: str) -> AsyncIterator[Server]:
    """There is nothing to start."""
    yield Server(name, "")
