"""What the cost model learns from steps of known laws, and the gaps of streams on such machines."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.engine.step_cost import REFERENCE, StepCost, StepShape, chunk_pairs
from tests.support.engines import greedy, prompt_of
from tests.support.step_laws import (
    LAWS,
    STREAMS,
    Law,
    TimedBench,
    launches,
    linear,
    noisy,
    roofline,
    slow_at,
    steep,
)

DECODES = StepShape(4, 1000)


def some_steps(count: int, seed: int = 0) -> list[StepShape]:
    """Of all three kinds, in turns."""
    rng = np.random.default_rng(seed)
    steps = []
    for index in range(count):
        rows = int(rng.integers(1, 9)) if index % 3 else 0
        shape = StepShape(rows, rows * int(rng.integers(10, 1500)))
        if index % 3 != 1:
            shape = shape.with_chunk(int(rng.integers(0, 1800)), int(rng.integers(16, 300)))
        steps.append(shape)
    return steps


def taught(law: Law, steps: list[StepShape]) -> StepCost:
    cost = StepCost()
    for shape in steps:
        cost.observe(shape, law(shape))
    return cost


def worst_error(cost: StepCost, law: Law) -> float:
    return max(abs(cost.predict(shape) / law(shape) - 1) for shape in some_steps(60, seed=1))


def test_pairs_are_what_causal_attention_computes() -> None:
    assert chunk_pairs(0, 3) == 1 + 2 + 3
    assert chunk_pairs(10, 2) == 11 + 12
    halves = StepShape().with_chunk(5, 20).with_chunk(25, 30)
    assert halves == StepShape().with_chunk(5, 50)


def test_a_law_of_the_assumed_form_is_found() -> None:
    assert worst_error(taught(linear, some_steps(90)), linear) < 0.02


def test_under_noise_it_is_found_roughly() -> None:
    assert worst_error(taught(noisy(linear, 0.15), some_steps(200)), linear) < 0.15


def test_a_machine_that_becomes_slower_is_learned_anew() -> None:
    cost = taught(linear, some_steps(90))

    def throttled(shape: StepShape) -> float:
        return 2 * linear(shape)

    for shape in some_steps(240, seed=2):
        cost.observe(shape, throttled(shape))
    assert worst_error(cost, throttled) < 0.05


def test_hours_of_decoding_do_not_wash_out_what_a_chunk_costs() -> None:
    cost = taught(linear, some_steps(90))
    before = cost.predict(DECODES.with_chunk(500, 128))
    for step in range(5000):
        shape = StepShape(4, 1000 + step % 50)
        cost.observe(shape, linear(shape))
    assert cost.predict(DECODES.with_chunk(500, 128)) == pytest.approx(before, rel=0.02)


@pytest.mark.parametrize("slow", [[0], [0, 1], [5], [20]])
def test_steps_that_hung_poison_nothing(slow: list[int]) -> None:
    steps = some_steps(24)
    law = slow_at(linear, iter(slow), 100.0)
    assert worst_error(taught(law, steps), linear) < 0.1


def test_before_it_knows_a_chunk_of_128_tokens_fits_and_less_at_long_context() -> None:
    cost = StepCost()
    for target_s in (0.0, 1e-3, 10.0):
        assert cost.chunk_tokens(DECODES, 0, target_s) == 128
    assert 64 <= cost.chunk_tokens(DECODES, 1024, 0.0) < 80
    for shape in some_steps(3):
        cost.observe(shape, linear(shape))
    assert not cost.known
    assert cost.chunk_tokens(DECODES, 0, 1e-3) == 128


def test_one_kind_of_step_is_not_enough_to_know() -> None:
    decodes_only = taught(linear, [StepShape(rows, rows * 50) for rows in range(1, 60)])
    prompts_only = taught(linear, [StepShape().with_chunk(0, rows) for rows in range(1, 60)])
    assert not decodes_only.known
    assert not prompts_only.known


def test_steps_without_a_duration_say_nothing() -> None:
    cost = taught(lambda shape: 0.0, some_steps(60))
    assert not cost.known
    assert cost.chunk_tokens(DECODES, 0, 0.0) == 128


def test_a_clock_that_always_shows_the_same_duration_makes_chunks_free() -> None:
    cost = taught(lambda shape: 1e-3, some_steps(200))
    assert cost.chunk_tokens(DECODES, 0, 0.0) > 500


@pytest.mark.parametrize("law", [linear, steep], ids=["linear", "steep"])
@pytest.mark.parametrize("context", [0, 300, 1900])
def test_a_chunk_fills_the_allowance_and_does_not_exceed_it(law: Law, context: int) -> None:
    cost = taught(law, some_steps(120))
    allowance = law(DECODES) + law(REFERENCE)
    tokens = cost.chunk_tokens(DECODES, context, 0.0)
    assert law(DECODES.with_chunk(context, tokens)) <= allowance * 1.02
    assert law(DECODES.with_chunk(context, tokens + 8)) >= allowance * 0.98


def test_with_a_target_the_step_ends_in_time() -> None:
    cost = taught(linear, some_steps(120))
    for target_s, context in itertools.product((0.02, 0.05, 0.2), (0, 700, 2000)):
        tokens = cost.chunk_tokens(DECODES, context, target_s)
        assert cost.predict(DECODES.with_chunk(context, tokens)) <= target_s * (1 + 1e-6)
        assert cost.predict(DECODES.with_chunk(context, tokens + 2)) > target_s
    assert cost.chunk_tokens(DECODES, 0, 0.001) == 0


def test_chunks_planned_before_count() -> None:
    cost = taught(linear, some_steps(120))
    alone = cost.chunk_tokens(DECODES, 0, 0.06)
    half = DECODES.with_chunk(0, alone // 2)
    assert cost.chunk_tokens(half, alone // 2, 0.06) in (alone - alone // 2, alone - alone // 2 - 1)
    assert cost.chunk_tokens(DECODES.with_chunk(0, 2 * alone), 0, 0.06) == 0


def test_predictions_that_were_too_low_make_it_careful_for_a_while() -> None:
    cost = taught(linear, some_steps(120))
    before = cost.chunk_tokens(DECODES, 0, 0.06)
    shape = DECODES.with_chunk(0, 100)
    cost.observe(shape, 100 * linear(shape))
    after = cost.chunk_tokens(DECODES, 0, 0.06)
    assert 0.6 * before < after < 0.9 * before
    for step in some_steps(60, seed=3):
        cost.observe(step, linear(step))
    assert cost.chunk_tokens(DECODES, 0, 0.06) >= 0.97 * before


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 64),
            st.integers(0, 4000),
            st.integers(0, 512),
            st.integers(0, 8000),
            st.floats(0, 100, allow_subnormal=False),
        ),
        max_size=60,
    ),
    st.integers(0, 100_000),
    st.floats(0, 10),
)
def test_whatever_it_saw_its_answers_are_bounds(
    past: list[tuple[int, int, int, int, float]], context: int, target_s: float
) -> None:
    cost = StepCost()
    for rows, keys, tokens, at, seconds in past:
        cost.observe(StepShape(rows, rows * keys).with_chunk(at, tokens), seconds)
    tokens = cost.chunk_tokens(DECODES, context, target_s)
    assert 0 <= tokens <= 1 << 20
    predicted = [cost.predict(DECODES.with_chunk(context, n)) for n in (0, tokens, tokens + 9)]
    assert all(math.isfinite(seconds) and seconds >= 0 for seconds in predicted)
    assert predicted == sorted(predicted)
    limit = target_s if target_s and cost.known else predicted[0] + cost.predict(REFERENCE)
    assert tokens == 0 or predicted[1] <= limit * (1 + 1e-6)
    assert cost.chunk_tokens(DECODES, context + 500, target_s) <= tokens


def allowed_gap(law: Law, bench: TimedBench) -> float:
    """The idle gap between tokens just before the prompt, and a 128-token chunk."""
    return law(bench.past.shapes[-1]) + law(REFERENCE)


def chunks_of(bench: TimedBench, length: int) -> list[int]:
    """Of a prompt during the streams. It is admitted in a step that does not compute it yet."""
    bench.start_streams()
    steps = len(bench.past.shapes)
    bench.until_first_token("prompt", length)
    return [shape.prefill_tokens for shape in bench.past.shapes[steps + 1 :]]


def longest_gap(bench: TimedBench, since: float) -> float:
    return max(max(bench.past.gaps(f"stream-{index}", since)) for index in range(STREAMS))


@pytest.mark.parametrize(("name", "slack"), [
    ("linear", 1.0), ("launches", 1.0), ("roofline", 1.05), ("steep", 1.1), ("tiles", 1.15),
])  # fmt: skip
def test_a_2048_token_prompt_during_four_streams_stalls_none_from_the_first_time_on(
    name: str, slack: float
) -> None:
    bench = TimedBench(LAWS[name])
    bench.start_streams()
    allowed, since, steps = allowed_gap(LAWS[name], bench), bench.now, len(bench.past.shapes)
    bench.until_first_token("prompt", 2048)
    assert longest_gap(bench, since) <= allowed * slack
    while_prefilling = bench.past.shapes[steps + 1 :]
    assert all(shape.decode_rows == STREAMS for shape in while_prefilling)
    assert all(shape.prefill_tokens >= 16 for shape in while_prefilling)
    assert sum(shape.prefill_tokens for shape in while_prefilling) == 2048


@pytest.mark.parametrize("law", [linear, roofline], ids=["linear", "roofline"])
def test_a_first_step_that_takes_seconds_changes_nothing_of_that(law: Law) -> None:
    bench = TimedBench(slow_at(law, iter([0, 1]), 100.0))
    bench.start_streams()
    allowed, since = allowed_gap(law, bench), bench.now
    bench.until_first_token("prompt", 2048)
    assert longest_gap(bench, since) <= allowed * 1.05


def test_the_time_that_is_allowed_is_used() -> None:
    """On a large device chunks are as large as the step; on a small one they shrink with the
    context, and are what fits: a prompt is not dragged along at 16 tokens a step."""
    assert chunks_of(TimedBench(launches), 2048) == [480, 480, 480, 480, 128]
    chunks = chunks_of(TimedBench(linear), 2048)
    assert chunks[0] == 128
    assert chunks == sorted(chunks[:-1], reverse=True) + chunks[-1:]
    assert min(chunks[:-1]) >= 32


@pytest.mark.parametrize("target_ms", [30.0, 60.0, 100.0])
def test_a_target_bounds_the_gap(target_ms: float) -> None:
    bench = TimedBench(linear, tpot_target_ms=target_ms)
    bench.start_streams()
    bench.until_first_token("warm", 600)
    since = bench.now
    bench.until_first_token("prompt", 2048)
    assert longest_gap(bench, since) <= target_ms * 1e-3 * 1.02


def test_a_target_that_cannot_be_met_still_lets_the_prompt_advance() -> None:
    bench = TimedBench(linear, tpot_target_ms=0.5)
    bench.start_streams()
    bench.until_first_token("prompt", 2048)
    assert bench.past.shapes[-1].prefill_tokens == 16


def test_chunks_beside_decodes_end_where_blocks_end() -> None:
    chunks = chunks_of(TimedBench(noisy(roofline, 0.2)), 2000)
    assert sum(chunks) == 2000
    assert all(chunk % 32 == 0 for chunk in chunks[:-1])


def test_equal_clocks_give_equal_plans() -> None:
    seen = []
    for _ in range(2):
        bench = TimedBench(noisy(roofline, 0.2, seed=5))
        bench.start_streams()
        bench.until_first_token("prompt", 1500)
        seen.append(bench.past.shapes)
    assert seen[0] == seen[1]


def test_more_streams_than_a_step_has_rows_all_advance_and_so_does_a_prompt() -> None:
    bench = TimedBench(linear, step_tokens=16)
    for index in range(20):
        bench.add(f"s{index}", prompt_of(8, seed=index), greedy(400))
    while len(bench.past.times) < 20:
        bench.step()
    since = len(bench.past.shapes)
    before = {name: len(times) for name, times in bench.past.times.items()}
    bench.add("prompt", prompt_of(200, seed=77), greedy(2))
    for _ in range(60):
        bench.step()
    came = [len(bench.past.times[name]) - count for name, count in before.items()]
    # 20 streams share 16 rows, 8 while the prompt computes.
    assert max(came) - min(came) <= 2
    assert min(came) >= 60 * 8 // 20
    assert "prompt" in bench.past.times
    assert max(shape.decode_rows for shape in bench.past.shapes[since:]) == 16
