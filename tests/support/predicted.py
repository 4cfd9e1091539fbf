"""Engines with prices of round numbers, for predictions that can be computed by hand."""

from common.engine.bench.costs.step_costs import (
    ALONE,
    BESIDE_DECODES,
    BESIDE_PROMPTS,
    Outside,
    StepCosts,
)
from common.engine.bench.costs.step_law import DecodePrices, PromptPrices, StepLaw
from common.engine.engine import EngineLimits
from loadtest.predict.simulated_cluster import Answering, ClusterPlan, SimulatedCluster
from loadtest.predict.simulated_worker import WorkerPlan
from loadtest.predict.surroundings import Surroundings
from loadtest.predict.virtual_clock import VirtualClock

LAW = StepLaw(
    prompts=PromptPrices(10.0, 0.1, 0.001),
    few=DecodePrices(5.0, 1.0, 0.01),
    many=DecodePrices(3.0, 1.5, 0.01),
    few_rows=4,
    joined_ms=2.0,
)
TOKEN_BYTES = 1000
NOTHING_AROUND = Surroundings(
    cpu_us_a_token=0.0,
    cpu_us_a_request=0.0,
    cpu_s_a_s=0.0,
    request_ms=5.0,
    hop_ms=1.0,
    transfer_gb_s=1.0,
    transfer_ms=2.0,
    cpu_s_a_gb=0.0,
)


def times(law: StepLaw, factor: float) -> StepLaw:
    """Everything takes so many times as long."""
    few, many, prompts = (
        [factor * price for price in prices]
        for prices in (
            (law.few.base_ms, law.few.row_ms, law.few.context_ms),
            (law.many.base_ms, law.many.row_ms, law.many.context_ms),
            (law.prompts.base_ms, law.prompts.token_ms, law.prompts.pair_ms),
        )
    )
    return StepLaw(
        PromptPrices(*prompts),
        DecodePrices(*few),
        DecodePrices(*many),
        law.few_rows,
        factor * law.joined_ms,
    )


def costs(beside_prompts: float = 1.0, beside_decodes: float = 1.0) -> StepCosts:
    """Slower by these factors beside another engine."""
    laws = {
        ALONE: LAW,
        BESIDE_PROMPTS: times(LAW, beside_prompts),
        BESIDE_DECODES: times(LAW, beside_decodes),
    }
    return StepCosts("round numbers", laws, Outside(), TOKEN_BYTES, cores=2)


def worker(name: str, limits: EngineLimits | None = None, slots: int = 512) -> WorkerPlan:
    return WorkerPlan(name, limits or EngineLimits(), block_tokens=32, slots=slots)


def plan(prefill: int, decode: int, limits: EngineLimits | None = None) -> ClusterPlan:
    return ClusterPlan(
        prefill=tuple(worker(f"prefill-{n}", limits) for n in range(prefill)),
        decode=tuple(worker(f"decode-{n}", limits) for n in range(decode)),
        policy="least_loaded",
        max_sequences=64,
    )


class Scene:
    """A cluster, and requests sent at moments; what came when, in milliseconds."""

    def __init__(
        self,
        made: ClusterPlan,
        priced: StepCosts | None = None,
        around: Surroundings = NOTHING_AROUND,
    ) -> None:
        self.clock = VirtualClock()
        self.cluster = SimulatedCluster(made, priced or costs(), around, self.clock)
        self.asked: list[Answering] = []
        self._prompts = 0

    def send(
        self, prompt: int, tokens: int, at_ms: float = 0.0, *, again: bool = False
    ) -> list[float]:
        """Filled while the clock runs. No two prompts are alike, or this one is as the last."""
        came: list[float] = []
        self._prompts += not again
        first = 1000 * self._prompts
        answering = Answering(
            list(range(first, first + prompt)),
            tokens,
            on_token=lambda: came.append(self.clock.now * 1e3),
            on_end=lambda: None,
        )
        self.asked.append(answering)
        self.clock.at(at_ms * 1e-3, lambda: self.cluster.ask(answering))
        return came
