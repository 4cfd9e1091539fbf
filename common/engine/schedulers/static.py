"""Request-level batching, as FasterTransformer does it.

A batch is admitted when nothing runs and nothing is held, and nobody joins until all of it has
ended. Its prompts come first. A sequence that has ended is *padding* until the batch ends: it keeps
its blocks, and in every step of decodes a row of it is computed for nobody. Where blocks are scarce
padding gives way before anybody is preempted, for who never ends keeps the batch for ever. Owns the
padding, and whose turn it was.
"""

from collections.abc import Sequence as Sequences
from collections.abc import Sized
from copy import copy

from common.engine.allocation import Allocator
from common.engine.prefix_cache import PrefixCache
from common.engine.sequence import Sequence, State
from common.engine.step_plan import (
    NOBODY,
    Budget,
    StepPlan,
    plan_decodes,
    plan_whole_prompts,
    resume,
)


class Static:
    """Implements Scheduler."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._turn = NOBODY
        self.padding: list[Sequence] = []

    def admits(self, running: Sized, held: Sized) -> bool:
        return not running and not held

    def plan(self, running: Sequences[Sequence], allocator: Allocator) -> StepPlan:
        plan = StepPlan(turn=self._turn)
        self._give_way(running, allocator.cache)
        resume(running, allocator)
        plan_whole_prompts(running, self._budget, plan)
        if not plan.rows:
            plan_decodes(running, allocator, self._budget, plan)
            if plan.rows:
                plan.padding = self.padding[: self._budget.step_tokens - len(plan.rows)]
        self._turn = plan.turn
        return plan

    def observe(self, plan: StepPlan, seconds: float) -> None:
        """What steps cost changes nothing here."""

    def ended(self, sequence: Sequence, running: Sequences[Sequence], cache: PrefixCache) -> None:
        if len(running) == 1:
            self._let_go(len(self.padding), cache)
            return
        if not sequence.table:
            return  # A choice that never had room for its copy of the prompt.
        for slot in sequence.table:
            cache.retain(slot)
        self.padding.append(copy(sequence))

    def _give_way(self, running: Sequences[Sequence], cache: PrefixCache) -> None:
        if any(seq.state is State.PREEMPTED for seq in running) or not running:
            self._let_go(len(self.padding), cache)
        size = self._budget.block_tokens
        full = sum(seq.computed == len(seq.table) * size for seq in running)
        while self.padding and full > cache.available:
            self._let_go(1, cache)

    def _let_go(self, count: int, cache: PrefixCache) -> None:
        """Of the padding, who ended first."""
        for sequence in self.padding[:count]:
            cache.release(sequence.table)
        del self.padding[:count]
