"""Prompts before decodes, on sequences made by hand and in an engine."""

from common.engine.engine import EngineLimits
from common.engine.job import Emitted
from common.engine.mock import expected_output
from common.engine.schedulers.prefill_first import PrefillFirst
from common.engine.sequence import State
from common.engine.step_plan import Budget, preempt
from tests.support.engines import Bench, greedy, key, prompt_of
from tests.support.sequences import BLOCK_TOKENS, cache_of, decoding, paged, running


def test_streams_wait_for_every_prompt_and_then_go_on_together() -> None:
    cache = cache_of(20)
    scheduler = PrefillFirst(Budget(64, BLOCK_TOKENS))
    streams = [decoding(cache, f"d{at}", 5, arrival=at) for at in range(2)]
    prompt = running(cache, "p", 50, arrival=5)
    assert scheduler.plan([*streams, prompt], paged(cache)).rows == [(prompt, 50)]
    prompt.computed, prompt.output = 50, [1]
    plan = scheduler.plan([*streams, prompt], paged(cache))
    assert plan.rows == [(streams[0], 1), (streams[1], 1), (prompt, 1)]


def test_who_comes_back_from_a_preemption_is_a_prompt_again() -> None:
    cache = cache_of(4)
    scheduler = PrefillFirst(Budget(64, BLOCK_TOKENS))
    old, young = decoding(cache, "old", 16), decoding(cache, "young", 40, arrival=1)
    plan = scheduler.plan([old, young], paged(cache))
    assert (plan.rows, plan.preempted) == ([(old, 1)], [young])
    assert scheduler.plan([old, young], paged(cache)).rows == [(old, 1)], "there is no room yet"
    preempt(old, cache)
    plan = scheduler.plan([old, young], paged(cache))
    assert (plan.rows, young.state) == ([(old, 17)], State.PREEMPTED)


def test_decodes_take_turns_from_step_to_step() -> None:
    cache = cache_of(8)
    scheduler = PrefillFirst(Budget(2, BLOCK_TOKENS))
    streams = [decoding(cache, f"d{at}", 5, arrival=at) for at in range(3)]
    plans = [scheduler.plan(streams, paged(cache)) for _ in range(2)]
    served = [[sequence.key.request for sequence, _ in plan.rows] for plan in plans]
    assert served == [["d0", "d1"], ["d0", "d2"]]


def test_a_stream_stands_still_while_a_prompt_that_arrived_later_is_computed() -> None:
    bench = Bench(limits=EngineLimits(step_tokens=16, scheduler="prefill_first"))
    bench.add("a", prompt_of(8), greedy(50))
    for _ in range(3):
        bench.step()
    bench.add("b", prompt_of(160, seed=1), greedy(5))
    bench.step()
    fresh = [event for _ in range(9) for event in bench.step() if isinstance(event, Emitted)]
    assert fresh == []
    assert [e.key for e in bench.step() if isinstance(e, Emitted)] == [key("b")]
    bench.run()
    assert bench.output("a") == expected_output(prompt_of(8), greedy(50))
