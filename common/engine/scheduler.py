"""Which tokens the next step computes.

Decodes come first, one token each, because a stream that runs must not wait for somebody else's
prompt; what is left of the token budget goes to prompts in order of arrival, in chunks
(Sarathi-Serve's stall-free schedule). When a decode finds no block, the youngest running sequence
gives up its own and is computed again later. Pure: given sequences, blocks and a budget it returns
the plan, having taken the blocks the plan needs.
"""

from collections.abc import Sequence as Sequences
from dataclasses import dataclass, field

from common.domain.ids import UnitHash
from common.engine.prefix_cache import PrefixCache
from common.engine.sequence import Event, Sequence, State
from common.kv.hashing import block_names


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one step."""

    step_tokens: int
    """Rows of one forward pass, decodes included."""
    block_tokens: int


@dataclass(slots=True)
class StepPlan:
    """`rows`: how many tokens of which sequence, decodes first. `starved`: a sequence found no
    block and nobody was left to preempt, so reservations should be revoked."""

    rows: list[tuple[Sequence, int]] = field(default_factory=list)
    preempted: list[Sequence] = field(default_factory=list)
    starved: bool = False


def plan_step(running: Sequences[Sequence], cache: PrefixCache, budget: Budget) -> StepPlan:
    """`running` holds RUNNING and PREEMPTED sequences in order of arrival, so that whoever is
    preempted for one of them comes after it and is not in the plan yet."""
    plan = StepPlan()
    left = budget.step_tokens
    for sequence in running:
        if left == 0:
            return plan
        decodes = sequence.state is State.RUNNING and sequence.remaining == 1
        if decodes and _make_room(sequence, running, cache, budget, plan):
            plan.rows.append((sequence, 1))
            left -= 1
    if not plan.preempted:
        # Resuming while others are thrown out would only trade places with them.
        _resume(running, cache, budget)
    for sequence in running:
        if left == 0:
            break
        if sequence.state is State.RUNNING and sequence.remaining > 1:
            count = min(sequence.remaining, left)
            plan.rows.append((sequence, count))
            left -= count
    return plan


def blocks_for(tokens: int, block_tokens: int) -> int:
    return -(-tokens // block_tokens)


def _make_room(
    sequence: Sequence,
    running: Sequences[Sequence],
    cache: PrefixCache,
    budget: Budget,
    plan: StepPlan,
) -> bool:
    """True if the sequence has a slot for its next token."""
    if sequence.computed < len(sequence.table) * budget.block_tokens:
        return True
    while True:
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
        if victim is sequence:
            return False


def _youngest(running: Sequences[Sequence]) -> Sequence | None:
    candidates = [seq for seq in running if seq.state is State.RUNNING]
    return max(candidates, key=lambda seq: (seq.arrival, seq.choice), default=None)


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
