from dataclasses import replace
from itertools import pairwise

import pytest

from common.engine.bench.costs.step_law import decode_shape, prompt_shape
from common.engine.engine import EngineLimits
from common.engine.schedulers import SchedulerName
from tests.support.predicted import LAW, NOTHING_AROUND, TOKEN_BYTES, Scene, costs, plan

PROMPT = LAW.ms(prompt_shape(100))
REQUEST, HOP = NOTHING_AROUND.request_ms, NOTHING_AROUND.hop_ms


def lone(context: int) -> float:
    return LAW.ms(decode_shape(1, context))


def test_one_request_takes_its_prompt_and_then_a_lone_step_a_token() -> None:
    scene = Scene(plan(0, 1))
    came = scene.send(100, 3)
    scene.clock.run()
    first = REQUEST + PROMPT
    assert came == pytest.approx([first, first + lone(101), first + lone(101) + lone(102)])


def test_the_first_token_does_not_wait_for_the_transfer_and_the_second_does() -> None:
    scene = Scene(plan(1, 1))
    came = scene.send(100, 2)
    scene.clock.run()
    drawn = REQUEST + HOP + PROMPT
    four_blocks_ms = 2.0 + 4 * 32 * TOKEN_BYTES / 1e9 * 1e3
    assert came == pytest.approx([drawn + HOP, drawn + four_blocks_ms + lone(101)])


def test_blocks_are_copied_while_the_rest_of_the_prompt_is_computed() -> None:
    scene = Scene(plan(1, 1, EngineLimits(step_tokens=64)))
    came = scene.send(100, 2)
    scene.clock.run()
    first, rest = prompt_shape(64), prompt_shape(36, 64)
    drawn = REQUEST + HOP + LAW.ms(first) + LAW.ms(rest)
    two_blocks_ms = 2.0 + 2 * 32 * TOKEN_BYTES / 1e9 * 1e3
    assert came[1] == pytest.approx(drawn + two_blocks_ms + lone(101))


def test_two_engines_share_the_load() -> None:
    one, two = Scene(plan(0, 1)), Scene(plan(0, 2))
    came = [[scene.send(100, 1), scene.send(100, 1)] for scene in (one, two)]
    one.clock.run()
    two.clock.run()
    assert came[1] == [pytest.approx([REQUEST + PROMPT])] * 2
    in_one_step = REQUEST + 2 * PROMPT - LAW.prompts.base_ms
    assert came[0] == [pytest.approx([in_one_step])] * 2


def test_an_engine_is_slower_beside_one_that_computes_a_prompt() -> None:
    scene = Scene(plan(0, 2), costs(beside_prompts=2.0))
    came = [scene.send(100, 1), scene.send(100, 1)]
    scene.clock.run()
    assert came == [pytest.approx([REQUEST + PROMPT]), pytest.approx([REQUEST + 2 * PROMPT])]


def test_prompts_stop_streams_for_their_time_or_are_cut_to_fit_the_target() -> None:
    """The longest gap of a stream into which a prompt of 400 comes."""
    target_ms = 30.0
    gaps = {}
    schedulers: tuple[SchedulerName, ...] = ("prefill_first", "chunked")
    for scheduler in schedulers:
        limits = EngineLimits(scheduler=scheduler, tpot_target_ms=target_ms)
        scene = Scene(plan(0, 1, limits))
        stream = scene.send(20, 80)
        scene.send(60, 1, at_ms=100)
        scene.send(60, 1, at_ms=250)
        scene.send(400, 1, at_ms=400)
        scene.clock.run()
        gaps[scheduler] = max(after - before for before, after in pairwise(stream))
    whole = LAW.ms(prompt_shape(400))
    assert gaps["prefill_first"] == pytest.approx(whole + lone(70), rel=0.02)
    assert gaps["chunked"] <= 1.25 * target_ms < whole / 3


def test_more_than_the_workers_may_hold_waits_in_the_router() -> None:
    scene = Scene(replace(plan(0, 1), max_sequences=1))
    came = [scene.send(100, 1), scene.send(100, 1)]
    scene.clock.run()
    assert came[1] == pytest.approx([REQUEST + 2 * PROMPT])


def test_what_no_pool_can_hold_is_refused() -> None:
    made = plan(0, 1)
    scene = Scene(replace(made, decode=(replace(made.decode[0], slots=2),)))
    came = scene.send(100, 1)
    scene.clock.run()
    assert not came
    assert "the prompt needs 4 KV blocks" in scene.asked[0].error


@pytest.mark.parametrize("prefill", [0, 1])
def test_everybody_is_answered_when_blocks_are_scarce(prefill: int) -> None:
    made = plan(prefill, 1)
    small = tuple(replace(one, slots=20) for one in made.decode)
    scene = Scene(replace(made, decode=small))
    came = [scene.send(100, 120, at_ms=10.0 * n) for n in range(8)]
    scene.clock.run()
    assert [len(tokens) for tokens in came] == [120] * 8
    assert all(tokens == sorted(tokens) for tokens in came)
    assert all(account.sequences == 0 for account in scene.cluster.accounts)
    assert all(account.blocks == account.pending_tokens == 0 for account in scene.cluster.accounts)


def test_a_prompt_that_was_there_before_is_not_computed_again() -> None:
    scene = Scene(plan(0, 1))
    scene.send(100, 1)
    came = scene.send(100, 1, at_ms=500, again=True)
    scene.clock.run()
    assert scene.asked[1].cached_tokens == 96
    assert came == pytest.approx([500 + REQUEST + LAW.ms(prompt_shape(4, 96))])


def test_other_processes_take_their_share_of_busy_cores() -> None:
    around = replace(NOTHING_AROUND, cpu_us_a_token=4000.0)
    for cores, taken_ms in ((1, 4.0), (2, 0.0)):
        scene = Scene(plan(0, 1), replace(costs(), cores=cores), around)
        came = scene.send(100, 3)
        scene.clock.run()
        assert came[1] - came[0] == pytest.approx(lone(101) + taken_ms)
