"""Which tokens the next step computes, on sequences made by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.engine.prefix_cache import PrefixCache
from common.engine.schedulers.chunked import plan_step
from common.engine.sequence import Sequence, State
from common.engine.step_cost import StepCost, StepShape, chunk_pairs
from common.engine.step_plan import NOBODY, Budget, Place, StepPlan, preempt
from tests.support.engines import ROOT
from tests.support.sequences import BLOCK_TOKENS, cache_of, decoding, paged, running


def plan(
    sequences: list[Sequence],
    cache: PrefixCache,
    step_tokens: int = 64,
    cost: StepCost | None = None,
    turn: Place = NOBODY,
) -> StepPlan:
    budget = Budget(step_tokens, BLOCK_TOKENS)
    made = plan_step(sequences, paged(cache), budget, cost or StepCost(), turn)
    cache.check_invariants()
    assert sum(count for _, count in made.rows) <= step_tokens
    return made


def rows(made: StepPlan) -> list[tuple[str, int]]:
    return [(sequence.key.request, count) for sequence, count in made.rows]


def test_decodes_come_first_whatever_arrived_before_them() -> None:
    cache = cache_of(20)
    prompt = running(cache, "prompt", 100, arrival=1)
    decodes = [decoding(cache, f"d{index}", 5, arrival=2 + index) for index in range(3)]
    made = plan([prompt, *decodes], cache)
    assert rows(made) == [("d0", 1), ("d1", 1), ("d2", 1), ("prompt", 48)]


def test_prompts_share_the_rest_of_the_budget_in_order_of_arrival() -> None:
    cache = cache_of(20)
    prompts = [running(cache, f"p{index}", 50, arrival=index) for index in range(3)]
    assert rows(plan(prompts, cache)) == [("p0", 50), ("p1", 14)]
    prompts[0].computed, prompts[1].computed = 50, 14
    prompts[0].output = [1]
    assert rows(plan(prompts, cache)) == [("p0", 1), ("p1", 36), ("p2", 16)]


def served(made: StepPlan) -> list[str]:
    return [sequence.key.request for sequence, _ in made.rows]


def test_decodes_that_do_not_all_fit_take_turns_in_order_of_arrival() -> None:
    cache = cache_of(20)
    sequences = [decoding(cache, f"d{index}", 5, arrival=index) for index in range(5)]
    turn, seen = NOBODY, []
    for _ in range(5):
        made = plan(sequences, cache, step_tokens=2, turn=turn)
        turn = made.turn
        seen.append(served(made))
    assert seen == [["d0", "d1"], ["d2", "d3"], ["d0", "d4"], ["d1", "d2"], ["d3", "d4"]]


def test_whose_turn_it_was_outlives_a_step_in_which_all_fitted() -> None:
    cache = cache_of(20)
    sequences = [decoding(cache, f"d{index}", 5, arrival=index) for index in range(3)]
    made = plan(sequences, cache, step_tokens=2)
    assert served(made) == ["d0", "d1"]
    made = plan(sequences[:2], cache, step_tokens=2, turn=made.turn)
    assert served(made) == ["d0", "d1"]
    assert served(plan(sequences, cache, step_tokens=2, turn=made.turn)) == ["d0", "d2"]


def test_choices_of_one_request_take_turns_too() -> None:
    cache = cache_of(20)
    choices = [decoding(cache, "a", 5, arrival=1) for _ in range(3)]
    for index, sequence in enumerate(choices):
        sequence.choice = index
    made = plan(choices, cache, step_tokens=2)
    made = plan(choices, cache, step_tokens=2, turn=made.turn)
    assert [sequence.choice for sequence, _ in made.rows] == [0, 2]


def test_who_is_preempted_was_not_planned_though_turns_began_with_the_youngest() -> None:
    cache = cache_of(6)
    old, middle = (decoding(cache, name, 16, arrival=at) for at, name in ((1, "old"), (2, "mid")))
    young, last = (decoding(cache, name, 20, arrival=at) for at, name in ((3, "young"), (4, "z")))
    made = plan([old, middle, young, last], cache, step_tokens=3, turn=(3, 0))
    assert made.preempted == [last]
    assert rows(made) == [("old", 1), ("mid", 1)]
    assert made.turn == (2, 0)


def test_decodes_leave_a_step_of_any_size_some_rows_for_prompts() -> None:
    cache = cache_of(60)
    sequences = [decoding(cache, f"d{index}", 5, arrival=index) for index in range(40)]
    sequences.append(running(cache, "prompt", 100, arrival=50))
    made = plan(sequences, cache, step_tokens=40)
    assert len(made.rows) == 24 + 1
    assert rows(made)[-1] == ("prompt", 16)
    small = plan(sequences, cache, step_tokens=2, turn=made.turn)
    assert rows(small) == [("d24", 1), ("prompt", 1)]


def test_without_decodes_a_prompt_has_the_whole_step() -> None:
    cache = cache_of(60)
    made = plan([running(cache, "p", 700)], cache, step_tokens=500)
    assert rows(made) == [("p", 500)]


def test_beside_a_decode_an_unknown_machine_computes_128_tokens_of_a_prompt() -> None:
    cache = cache_of(60)
    made = plan([decoding(cache, "d", 5), running(cache, "p", 700, arrival=1)], cache, 512)
    assert rows(made) == [("d", 1), ("p", 128)]
    assert made.shape == StepShape(1, 6, 128, chunk_pairs(0, 128))


def dear() -> StepCost:
    """Nothing fits beside a decode."""
    cost = StepCost()
    for tokens in (10, 20, 30, 40):
        cost.observe(StepShape(1, 5, tokens, chunk_pairs(0, tokens)), float(tokens))
    return cost


@pytest.mark.parametrize(("computed", "count"), [(0, 16), (16, 16), (20, 12), (31, 1)])
def test_a_prompt_advances_to_the_end_of_its_block_whatever_that_costs(
    computed: int, count: int
) -> None:
    cache = cache_of(60)
    prompt = running(cache, "p", 700, arrival=1, computed=computed)
    sequences = [decoding(cache, "d", 5), prompt, running(cache, "next", 50, arrival=2)]
    budget = Budget(512, BLOCK_TOKENS, tpot_target_s=1e-3)
    made = plan_step(sequences, paged(cache), budget, dear())
    assert rows(made) == [("d", 1), ("p", count)]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(2, 300), st.integers(0, 250)), min_size=1, max_size=5),
    st.integers(0, 20),
    st.integers(2, 200),
    st.floats(0, 0.2),
    st.lists(st.tuples(st.integers(1, 99), st.floats(1e-4, 1e-1)), max_size=8),
)
def test_a_plan_keeps_its_bounds_and_prompts_advance(
    prompts: list[tuple[int, int]],
    decodes: int,
    step_tokens: int,
    target_s: float,
    past: list[tuple[int, float]],
) -> None:
    cache = cache_of(200)
    cost = StepCost()
    for tokens, seconds in past:
        cost.observe(StepShape(2, 90, tokens, chunk_pairs(0, tokens)), seconds)
    streams = [decoding(cache, f"d{index}", 5, arrival=index) for index in range(decodes)]
    waiting_ones = [
        running(cache, f"p{index}", length + at, arrival=100 + index, computed=at)
        for index, (length, at) in enumerate(prompts)
    ]
    made = plan_step(
        [*streams, *waiting_ones], paged(cache), Budget(step_tokens, BLOCK_TOKENS, target_s), cost
    )
    counts = {id(sequence): count for sequence, count in made.rows}
    assert 0 < sum(counts.values()) <= step_tokens
    assert len(counts) == len(made.rows)
    assert all(1 <= counts.get(id(seq), 1) <= seq.remaining for seq in waiting_ones)
    first = waiting_ones[0]
    floor = 16 - first.computed % 16
    assert counts[id(first)] >= min(first.remaining, floor, step_tokens // 2)
    if not decodes:
        everything = sum(seq.remaining for seq in waiting_ones)
        assert sum(counts.values()) == min(step_tokens, everything)
    elif counts[id(first)] > floor and target_s and cost.known:
        assert cost.predict(made.shape) <= target_s * (1 + 1e-6)


def test_the_last_token_of_a_prompt_counts_like_a_decode() -> None:
    cache = cache_of(20)
    made = plan(
        [running(cache, "p", 50), running(cache, "q", 17, arrival=1, computed=16)], cache, 10
    )
    assert rows(made) == [("q", 1), ("p", 9)]


def test_a_decode_takes_a_block_only_when_its_last_is_full() -> None:
    cache = cache_of(4)
    inside, full = decoding(cache, "inside", 15), decoding(cache, "full", 16, arrival=1)
    plan([inside, full], cache)
    assert (len(inside.table), len(full.table)) == (1, 2)
    assert cache.available == 1


def test_without_a_block_the_youngest_gives_up_its_own() -> None:
    cache = cache_of(4)
    old = decoding(cache, "old", 16, arrival=1)
    middle = decoding(cache, "middle", 20, arrival=2)
    young = decoding(cache, "young", 8, arrival=3)
    made = plan([old, middle, young], cache)
    assert rows(made) == [("old", 1), ("middle", 1)]
    assert made.preempted == [young]
    assert not made.starved
    assert (young.state, young.table, young.computed) == (State.PREEMPTED, [], 0)
    assert (young.recompute_until, young.preemptions) == (8, 1)


def test_of_one_requests_choices_the_last_goes_first() -> None:
    cache = cache_of(3)
    leader = decoding(cache, "a", 16, arrival=1)
    twins = [decoding(cache, "a", 5, arrival=1) for _ in range(2)]
    twins[0].choice, twins[1].choice = 1, 2
    made = plan([leader, *twins], cache)
    assert made.preempted == [twins[1]]


def test_a_prompt_under_way_is_preempted_like_any_other() -> None:
    cache = cache_of(4)
    old = decoding(cache, "old", 16, arrival=1)
    prompt = running(cache, "prompt", 40, arrival=2, computed=20)
    made = plan([old, prompt], cache)
    assert made.preempted == [prompt]
    assert rows(made) == [("old", 1)]
    assert prompt.recompute_until == 20


def test_the_youngest_preempts_itself_rather_than_an_older_one() -> None:
    cache = cache_of(3)
    old = decoding(cache, "old", 20, arrival=1)
    young = decoding(cache, "young", 16, arrival=2)
    made = plan([old, young], cache)
    assert made.preempted == [young]
    assert rows(made) == [("old", 1)]


def test_alone_without_a_block_it_starves_and_keeps_what_it_has() -> None:
    cache = cache_of(3)
    reserved = cache.allocate(2)
    assert reserved is not None
    alone = decoding(cache, "alone", 16)
    made = plan([alone], cache)
    assert (rows(made), made.preempted, made.starved) == ([], [], True)
    assert alone.state is State.RUNNING
    assert len(alone.table) == 1
    cache.release(reserved[:1])
    assert rows(plan([alone], cache)) == [("alone", 1)]


def test_the_preempted_come_back_oldest_first_while_there_is_room_for_all_they_had() -> None:
    cache = cache_of(6)
    sequences = [decoding(cache, f"s{index}", 20, arrival=index) for index in range(3)]
    for sequence in sequences:
        preempt(sequence, cache)
    blocker = cache.allocate(3)
    assert blocker is not None
    made = plan(sequences, cache)
    # Two blocks each; there are three. The prefix is computed again, and the token after it.
    assert rows(made) == [("s0", 21)]
    assert [sequence.state for sequence in sequences] == [
        State.RUNNING,
        State.PREEMPTED,
        State.PREEMPTED,
    ]
    cache.release(blocker)
    sequences[0].computed = 21
    sequences[0].output.append(1)
    assert rows(plan(sequences, cache)) == [("s0", 1), ("s1", 21), ("s2", 21)]


def test_a_small_one_does_not_overtake_an_older_one_on_the_way_back() -> None:
    cache = cache_of(3)
    large, small = decoding(cache, "large", 30, arrival=1), decoding(cache, "small", 5, arrival=2)
    for sequence in (large, small):
        preempt(sequence, cache)
    blocker = cache.allocate(2)
    assert blocker is not None
    assert rows(plan([large, small], cache)) == []
    assert small.state is State.PREEMPTED


def test_nobody_comes_back_in_a_step_that_threw_somebody_out() -> None:
    cache = cache_of(3)
    away = decoding(cache, "away", 5, arrival=1)
    preempt(away, cache)
    old, young = decoding(cache, "old", 16, arrival=2), decoding(cache, "young", 30, arrival=3)
    made = plan([away, old, young], cache)
    assert made.preempted == [young]
    assert away.state is State.PREEMPTED


def test_a_preempted_sequence_finds_its_named_blocks_again() -> None:
    cache = cache_of(4)
    sequence = decoding(cache, "a", 40)
    first = sequence.table[0]
    cache.name(first, ROOT, (sequence.units[0],))
    preempt(sequence, cache)
    made = plan([sequence], cache)
    assert sequence.table[0] == first
    assert (sequence.computed, sequence.named) == (16, 1)
    assert rows(made) == [("a", 25)]


def test_nothing_to_do_is_an_empty_plan() -> None:
    assert plan([], cache_of(1)) == StepPlan()
