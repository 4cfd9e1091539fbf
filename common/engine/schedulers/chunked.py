"""Decodes first, prompts in chunks beside them (Sarathi-Serve's stall-free schedule).

A stream that runs must not wait for somebody else's prompt: decodes have one token each in every
step. Prompts follow in order of arrival: without decodes as many tokens as a step has, beside
decodes as many as the step's predicted time allows, and never none. Owns what steps cost, and whose
turn it was.
"""

from collections.abc import Sequence as Sequences
from collections.abc import Sized

from common.engine.allocation import Allocator
from common.engine.prefix_cache import PrefixCache
from common.engine.sequence import Sequence, State
from common.engine.step_cost import StepCost, StepShape
from common.engine.step_plan import (
    FLOOR_TOKENS,
    NOBODY,
    Budget,
    Place,
    StepPlan,
    plan_decodes,
    resume,
)


class Chunked:
    """Implements Scheduler."""

    padding = ()

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._cost = StepCost()
        self._turn = NOBODY

    def admits(self, running: Sized, held: Sized) -> bool:
        return True

    def plan(self, running: Sequences[Sequence], allocator: Allocator) -> StepPlan:
        plan = plan_step(running, allocator, self._budget, self._cost, self._turn)
        self._turn = plan.turn
        return plan

    def observe(self, plan: StepPlan, seconds: float) -> None:
        self._cost.observe(plan.shape, seconds)

    def ended(self, sequence: Sequence, running: Sequences[Sequence], cache: PrefixCache) -> None:
        """Its place is free at once."""


def plan_step(
    running: Sequences[Sequence],
    allocator: Allocator,
    budget: Budget,
    cost: StepCost,
    turn: Place = NOBODY,
) -> StepPlan:
    """`turn` comes from the plan before."""
    plan = StepPlan(turn=turn)
    plan_decodes(running, allocator, budget, plan)
    if len(plan.rows) == len(running):
        return plan
    if not plan.preempted:
        # Resuming while others are thrown out would only trade places with them.
        resume(running, allocator)
    _plan_chunks(running, budget, cost, plan)
    return plan


def _plan_chunks(
    running: Sequences[Sequence], budget: Budget, cost: StepCost, plan: StepPlan
) -> None:
    left = budget.step_tokens - len(plan.rows)
    for sequence in running:
        if sequence.state is not State.RUNNING or sequence.remaining == 1:
            continue
        count = min(sequence.remaining, left)
        if plan.shape.decode_rows:
            count = _beside_decodes(sequence, count, budget, cost, plan.shape)
        if count == 0:
            return
        plan.rows.append((sequence, count))
        plan.shape = plan.shape.with_chunk(sequence.computed, count)
        left -= count


def _beside_decodes(
    sequence: Sequence, count: int, budget: Budget, cost: StepCost, planned: StepShape
) -> int:
    """What of `count` tokens the step's time allows, cut where a block ends if one does. The first
    chunk of a step has FLOOR_TOKENS whatever they cost, or a slow machine would never finish."""
    in_time = cost.chunk_tokens(planned, sequence.computed, budget.tpot_target_s)
    allowed = min(count, in_time)
    if allowed == sequence.remaining:
        return allowed
    start = sequence.computed
    for size in (budget.block_tokens, FLOOR_TOKENS):
        whole = (start + allowed) // size * size - start
        if whole > 0:
            return whole
    return 0 if planned.prefill_tokens else min(count, FLOOR_TOKENS - start % FLOOR_TOKENS)
