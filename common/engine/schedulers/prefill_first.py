"""Whole prompts before any decode, as vLLM did before it had chunks, and as the baseline that
DistServe measures does.

While anybody who runs has prompt left, a step is prompts only and every stream waits; without
prompts it is decodes only. New requests join between steps. Owns whose turn it was.
"""

from collections.abc import Sequence as Sequences
from collections.abc import Sized

from common.engine.allocation import Allocator
from common.engine.prefix_cache import PrefixCache
from common.engine.sequence import Sequence
from common.engine.step_plan import (
    NOBODY,
    Budget,
    StepPlan,
    plan_decodes,
    plan_whole_prompts,
    resume,
)


class PrefillFirst:
    """Implements Scheduler."""

    padding = ()

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._turn = NOBODY

    def admits(self, running: Sized, held: Sized) -> bool:
        return True

    def plan(self, running: Sequences[Sequence], allocator: Allocator) -> StepPlan:
        plan = StepPlan(turn=self._turn)
        resume(running, allocator)
        plan_whole_prompts(running, self._budget, plan)
        if not plan.rows:
            plan_decodes(running, allocator, self._budget, plan)
        self._turn = plan.turn
        return plan

    def observe(self, plan: StepPlan, seconds: float) -> None:
        """What steps cost changes nothing here."""

    def ended(self, sequence: Sequence, running: Sequences[Sequence], cache: PrefixCache) -> None:
        """Its place is free at once."""
