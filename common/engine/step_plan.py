"""The plan of one step, what a scheduler is, and what schedulers have in common.

A scheduler says which tokens the next step computes. Common to all: decodes that do not all fit
take turns; when one finds no block, the youngest running sequence gives up its own and is computed
again later, and those who had to come back in order of arrival. Pure: the functions take the blocks
that the plan needs and write into the plan they are given.
"""

from collections.abc import Sequence as Sequences
from collections.abc import Sized
from dataclasses import dataclass, field
from typing import Protocol

from common.engine.allocation import Allocator
from common.engine.prefix_cache import PrefixCache
from common.engine.sequence import Event, Sequence, State
from common.engine.step_cost import StepShape

Place = tuple[int, int]
"""Arrival and choice: the order of sequences."""
NOBODY: Place = (-1, -1)
"""Before everybody's place."""
FLOOR_TOKENS = 16
"""The smallest block: what prompts advance by in every step."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one step."""

    step_tokens: int
    """Rows of one forward pass, decodes included."""
    block_tokens: int
    tpot_target_s: float = 0.0
    """Predicted time of a step with decodes and prompts; 0: see StepCost.chunk_tokens."""

    @property
    def prompt_rows(self) -> int:
        """Rows that decodes leave to prompts however many there are."""
        return min(FLOOR_TOKENS, self.step_tokens // 2)


@dataclass(slots=True)
class StepPlan:
    """`rows`: how many tokens of which sequence, decodes first, and `shape` their cost's measure.
    `padding`: sequences that have ended and whose last row is computed again, for nobody.
    `starved`: a sequence found no block and nobody was left to preempt, so reservations should be
    revoked. `turn`: whose turn was the last when not all decodes fitted."""

    rows: list[tuple[Sequence, int]] = field(default_factory=list)
    padding: Sequences[Sequence] = ()
    preempted: list[Sequence] = field(default_factory=list)
    starved: bool = False
    shape: StepShape = field(default_factory=StepShape)
    turn: Place = NOBODY


class Scheduler(Protocol):
    """`running` always holds RUNNING and PREEMPTED sequences in order of arrival, so that whoever
    is preempted for one of them comes after it."""

    @property
    def padding(self) -> Sequences[Sequence]:
        """Copies of sequences that have ended and still own their blocks."""

    def admits(self, running: Sized, held: Sized) -> bool:
        """Whether those who wait may be given blocks now."""

    def plan(self, running: Sequences[Sequence], allocator: Allocator) -> StepPlan:
        """Takes the blocks that the plan needs."""

    def observe(self, plan: StepPlan, seconds: float) -> None:
        """The plan was computed, and took so long."""

    def ended(self, sequence: Sequence, running: Sequences[Sequence], cache: PrefixCache) -> None:
        """It drew its last token; it is among the running for the last time and has its blocks."""


def place_of(sequence: Sequence) -> Place:
    return (sequence.arrival, sequence.choice)


def plan_decodes(
    running: Sequences[Sequence], allocator: Allocator, budget: Budget, plan: StepPlan
) -> None:
    """One token of every sequence that has one left, leaving some rows to prompts if there are."""
    alive = [seq for seq in running if seq.state is State.RUNNING]
    decodes = [seq for seq in alive if seq.remaining == 1]
    prompts = len(decodes) < len(alive)
    room = budget.step_tokens - (budget.prompt_rows if prompts else 0)
    if len(decodes) > room:
        later = [seq for seq in decodes if place_of(seq) > plan.turn]
        decodes = (later + decodes[: len(decodes) - len(later)])[:room]
        plan.turn = place_of(decodes[-1])
        decodes.sort(key=place_of)
    context = 0
    for sequence in decodes:
        room_left = sequence.computed < len(sequence.table) * budget.block_tokens
        if room_left or make_room(sequence, running, allocator.cache, plan):
            plan.rows.append((sequence, 1))
            context += sequence.computed + 1
    plan.shape = StepShape(len(plan.rows), context)


def plan_whole_prompts(running: Sequences[Sequence], budget: Budget, plan: StepPlan) -> None:
    """Prompts only, in order of arrival, as many as fit; the first one is cut if it is longer than
    a step. What is computed again after a preemption counts as a prompt."""
    left = budget.step_tokens
    for sequence in running:
        if sequence.state is not State.RUNNING or _decodes(sequence):
            continue
        if sequence.remaining > left and plan.rows:
            return
        count = min(sequence.remaining, left)
        plan.rows.append((sequence, count))
        left -= count
        if not left:
            return


def _decodes(sequence: Sequence) -> bool:
    """A prompt's last token alone is no decode where prompts do not wait for decodes."""
    return bool(sequence.output) and sequence.remaining == 1


def make_room(
    sequence: Sequence, running: Sequences[Sequence], cache: PrefixCache, plan: StepPlan
) -> bool:
    """One block more; False if the sequence was, or is now, preempted or has to wait."""
    while sequence.state is State.RUNNING:
        slots = cache.allocate(1)
        if slots is not None:
            sequence.table.extend(slots)
            return True
        victim = _youngest(running)
        if victim is None or (victim is sequence and _alone(sequence, running)):
            plan.starved = True
            return False
        preempt(victim, cache)
        plan.preempted.append(victim)
    return False


def _youngest(running: Sequences[Sequence]) -> Sequence | None:
    candidates = [seq for seq in running if seq.state is State.RUNNING]
    return max(candidates, key=place_of, default=None)


def _alone(sequence: Sequence, running: Sequences[Sequence]) -> bool:
    return all(seq is sequence or seq.state is not State.RUNNING for seq in running)


def preempt(sequence: Sequence, cache: PrefixCache) -> None:
    """Give up the blocks; whole named ones stay cached and may be found again."""
    sequence.advance(Event.PREEMPT)
    cache.release(sequence.table)
    sequence.table = []
    sequence.recompute_until = max(sequence.recompute_until, sequence.computed)
    sequence.computed = 0
    sequence.named = 0
    sequence.preemptions += 1


def resume(running: Sequences[Sequence], allocator: Allocator) -> None:
    """Bring preempted sequences back, oldest first, while there is room for all they had."""
    for sequence in running:
        if sequence.state is not State.PREEMPTED:
            continue
        if not allocator.reserve(sequence, sequence.length):
            return
        sequence.advance(Event.RESUME)
