"""Engines that share a machine: what each does beside the others, and what the rest takes of cores.

An engine's step is priced when it begins, by what its neighbours do at that moment: computing
prompts weighs more than decodes. It keeps its price when they change, which errs in both directions
alike. There is a core for each engine, and where there are more cores than engines the rest is for
others. What other processes compute is free while a core is idle; while none is, each engine pays
its part, with its next step. Pure.
"""

from collections.abc import Hashable
from typing import Protocol

from common.engine.bench.costs.step_costs import ALONE, BESIDE_DECODES, BESIDE_PROMPTS, StepCosts
from common.engine.step_cost import StepShape


class Busy(Hashable, Protocol):
    @property
    def busy(self) -> bool:
        """In a step, or about to be."""


class SharedMachine:
    def __init__(self, costs: StepCosts, cpu_s_a_s: float = 0.0) -> None:
        """Other processes compute `cpu_s_a_s` seconds in every second, beside what they `spend`."""
        self._costs = costs
        self._cpu_s_a_s = cpu_s_a_s
        self._owed_s: dict[Busy, float] = {}
        self._steps: dict[Busy, StepShape] = {}

    def join(self, engine: Busy) -> None:
        self._owed_s[engine] = 0.0

    def begin(self, engine: Busy, shape: StepShape) -> float:
        """Seconds that the step takes. It lasts until `end`."""
        took_s = self._costs.ms(shape, self._condition(engine)) * 1e-3
        if self._is_full:
            took_s *= 1 + self._cpu_s_a_s / len(self._owed_s)
        took_s += self._owed_s[engine]
        self._owed_s[engine] = 0.0
        self._steps[engine] = shape
        return took_s

    def end(self, engine: Busy) -> None:
        self._steps.pop(engine, None)

    def spend(self, cpu_s: float) -> None:
        """Somebody else computes for so long."""
        if not self._is_full:
            return
        for engine in self._owed_s:
            self._owed_s[engine] += cpu_s / len(self._owed_s)

    @property
    def _is_full(self) -> bool:
        """No core is idle, and none is anybody else's."""
        cores = self._costs.cores
        return 0 < cores <= len(self._owed_s) and all(engine.busy for engine in self._owed_s)

    def _condition(self, engine: Busy) -> str:
        others = [shape for other, shape in self._steps.items() if other is not engine]
        if any(shape.prefill_tokens for shape in others):
            return BESIDE_PROMPTS
        return BESIDE_DECODES if others else ALONE
