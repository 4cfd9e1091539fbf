"""Which tokens the next step computes.

Decodes come first, one token each, because a stream that runs must not wait for somebody else's
prompt; where not all fit they take turns. Prompts follow in order of arrival, in chunks
(Sarathi-Serve's stall-free schedule): without decodes as many tokens as a step has, beside decodes
as many as the step's predicted time allows, and never none. When a decode finds no block, the
youngest running sequence gives up its own and is computed again later. Pure: given sequences,
blocks, a budget and the durations of earlier steps it returns the plan, having taken the blocks the
plan needs.
"""

from collections.abc import Sequence as Sequences
from dataclasses import dataclass, field

from common.domain.ids import UnitHash
from common.engine.prefix_cache import PrefixCache
from common.engine.sequence import Event, Sequence, State
from common.engine.step_cost import StepCost, StepShape
from common.kv.hashing import block_names

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
    `starved`: a sequence found no block and nobody was left to preempt, so reservations should be
    revoked. `turn`: whose turn was the last when not all decodes fitted."""

    rows: list[tuple[Sequence, int]] = field(default_factory=list)
    preempted: list[Sequence] = field(default_factory=list)
    starved: bool = False
    shape: StepShape = field(default_factory=StepShape)
    turn: Place = NOBODY


class Scheduler:
    """What one step leaves to the next: what steps cost, and whose turn it was."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._cost = StepCost()
        self._turn = NOBODY

    def plan(self, running: Sequences[Sequence], cache: PrefixCache) -> StepPlan:
        plan = plan_step(running, cache, self._budget, self._cost, self._turn)
        self._turn = plan.turn
        return plan

    def observe(self, plan: StepPlan, seconds: float) -> None:
        """The plan was computed, and took so long."""
        self._cost.observe(plan.shape, seconds)


def plan_step(
    running: Sequences[Sequence],
    cache: PrefixCache,
    budget: Budget,
    cost: StepCost,
    turn: Place = NOBODY,
) -> StepPlan:
    """`running` holds RUNNING and PREEMPTED sequences in order of arrival, so that whoever is
    preempted for one of them comes after it and is not in the plan yet. `turn` comes from the plan
    before."""
    plan = StepPlan(turn=turn)
    _plan_decodes(running, cache, budget, plan)
    if len(plan.rows) == len(running):
        return plan
    if not plan.preempted:
        # Resuming while others are thrown out would only trade places with them.
        _resume(running, cache, budget)
    _plan_prompts(running, budget, cost, plan)
    return plan


def _plan_decodes(
    running: Sequences[Sequence], cache: PrefixCache, budget: Budget, plan: StepPlan
) -> None:
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
        if room_left or _make_room(sequence, running, cache, budget, plan):
            plan.rows.append((sequence, 1))
            context += sequence.computed + 1
    plan.shape = StepShape(len(plan.rows), context)


def _plan_prompts(
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


def place_of(sequence: Sequence) -> Place:
    return (sequence.arrival, sequence.choice)


def blocks_for(tokens: int, block_tokens: int) -> int:
    return -(-tokens // block_tokens)


def _make_room(
    sequence: Sequence,
    running: Sequences[Sequence],
    cache: PrefixCache,
    budget: Budget,
    plan: StepPlan,
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


def _resume(running: Sequences[Sequence], cache: PrefixCache, budget: Budget) -> None:
    """Bring preempted sequences back, oldest first, while there is room for all they had."""
    for sequence in running:
        if sequence.state is not State.PREEMPTED:
            continue
        if not reserve(sequence, sequence.length, cache, budget.block_tokens):
            return
        sequence.advance(Event.RESUME)


def reserve(sequence: Sequence, tokens: int, cache: PrefixCache, block_tokens: int) -> bool:
    """Take cached blocks of the sequence's own prefix and fresh ones for the rest of `tokens`."""
    found = cache.match(cacheable_names(sequence, tokens, block_tokens))
    fresh = cache.allocate(blocks_for(tokens, block_tokens) - len(found))
    if fresh is None:
        cache.release(found)
        return False
    sequence.table = found + fresh
    sequence.computed = len(found) * block_tokens
    sequence.named = len(found)
    return True


def cacheable_names(sequence: Sequence, tokens: int, block_tokens: int) -> list[UnitHash]:
    """Names of the leading blocks that may come from a cache: at least one token stays to be
    computed, so that there are logits to draw from."""
    return block_names(sequence.units, block_tokens)[: (tokens - 1) // block_tokens]
