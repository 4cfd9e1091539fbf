"""What schedulers have in common, on sequences made by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.domain.errors import InvalidTransition
from common.engine.sequence import Event, State
from common.engine.step_cost import StepShape
from common.engine.step_plan import (
    Budget,
    StepPlan,
    make_room,
    place_of,
    plan_decodes,
    plan_whole_prompts,
    preempt,
    resume,
)
from tests.support.sequences import BLOCK_TOKENS, cache_of, decoding, paged, running, waiting


def rows(plan: StepPlan) -> list[tuple[str, int]]:
    return [(sequence.key.request, count) for sequence, count in plan.rows]


def test_a_step_leaves_prompts_a_block_or_half_of_itself() -> None:
    assert [Budget(tokens, 32).prompt_rows for tokens in (512, 32, 20, 2)] == [16, 16, 10, 1]


def test_preempting_what_does_not_run_is_a_bug_that_shows() -> None:
    sequence = waiting("a", 5)
    sequence.advance(Event.ADMIT)
    with pytest.raises(InvalidTransition, match="preempt while held"):
        preempt(sequence, cache_of(1))


def test_what_was_computed_before_is_known_however_often_it_is_thrown_out() -> None:
    cache = cache_of(4)
    sequence = running(cache, "a", 50, computed=40)
    preempt(sequence, cache)
    resume([sequence], paged(cache))
    sequence.computed = 16
    preempt(sequence, cache)
    assert (sequence.recompute_until, sequence.preemptions) == (40, 2)


def test_the_preempted_come_back_in_order_until_one_has_no_room() -> None:
    cache = cache_of(5)
    sequences = [decoding(cache, name, 20, arrival=at) for at, name in enumerate("ab")]
    for sequence in sequences:
        preempt(sequence, cache)
    assert cache.allocate(2) is not None
    resume(sequences, paged(cache))
    assert [sequence.state for sequence in sequences] == [State.RUNNING, State.PREEMPTED]
    assert len(sequences[0].table) == 2


def test_room_is_made_by_the_youngest() -> None:
    cache = cache_of(2)
    old, young = (decoding(cache, name, 16, arrival=at) for at, name in enumerate(("old", "young")))
    plan = StepPlan()
    assert make_room(old, [old, young], cache, plan)
    assert (plan.preempted, plan.starved, len(old.table)) == ([young], False, 2)
    assert not make_room(old, [old, young], cache, plan)
    assert (plan.starved, old.state) == (True, State.RUNNING)


def test_decodes_are_measured_by_the_keys_they_read() -> None:
    cache = cache_of(8)
    sequences = [decoding(cache, name, 20, arrival=at) for at, name in enumerate("ab")]
    plan = StepPlan()
    plan_decodes(sequences, paged(cache), Budget(64, BLOCK_TOKENS), plan)
    assert (rows(plan), plan.shape) == ([("a", 1), ("b", 1)], StepShape(2, 42))


def test_whole_prompts_fill_a_step_in_order_and_none_is_passed_by() -> None:
    cache = cache_of(30)
    prompts = [running(cache, f"p{at}", size, at) for at, size in enumerate((30, 30, 30, 4))]
    plan = StepPlan()
    plan_whole_prompts(prompts, Budget(64, BLOCK_TOKENS), plan)
    assert rows(plan) == [("p0", 30), ("p1", 30)]


def test_a_prompt_longer_than_a_step_is_cut_and_goes_on_first() -> None:
    cache = cache_of(30)
    long, short = running(cache, "long", 100), running(cache, "short", 10, arrival=1)
    plan = StepPlan()
    plan_whole_prompts([long, short], Budget(64, BLOCK_TOKENS), plan)
    assert rows(plan) == [("long", 64)]
    long.computed, plan = 64, StepPlan()
    plan_whole_prompts([long, short], Budget(64, BLOCK_TOKENS), plan)
    assert rows(plan) == [("long", 36), ("short", 10)]


def test_the_last_token_of_a_prompt_is_a_prompt_and_a_stream_is_not() -> None:
    cache = cache_of(30)
    last, stream = running(cache, "last", 17, computed=16), decoding(cache, "stream", 5, arrival=1)
    again = running(cache, "again", 8, arrival=2, output=3)
    plan = StepPlan()
    plan_whole_prompts([last, stream, again], Budget(64, BLOCK_TOKENS), plan)
    assert rows(plan) == [("last", 1), ("again", 11)]


@given(st.lists(st.integers(1, 90), max_size=8), st.integers(1, 80))
def test_a_step_of_prompts_is_never_too_large_and_never_empty(
    sizes: list[int], step_tokens: int
) -> None:
    cache = cache_of(60)
    prompts = [running(cache, f"p{at}", size, at) for at, size in enumerate(sizes)]
    plan = StepPlan()
    plan_whole_prompts(prompts, Budget(step_tokens, BLOCK_TOKENS), plan)
    assert sum(count for _, count in plan.rows) <= step_tokens
    assert bool(plan.rows) == bool(sizes)
    assert [place_of(sequence) for sequence, _ in plan.rows] == [
        place_of(sequence) for sequence in prompts[: len(plan.rows)]
    ]
    assert all(count == sequence.remaining for sequence, count in plan.rows[:-1])
