"""One attempt from Submit to its end, with every accident on the way."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from common.domain.errors import ErrorCode
from common.wire.messages.cluster import ClusterView, Load
from common.wire.messages.submit import Cancel, Failed, Placed
from common.wire.messages.work import Assign, PromptDone
from services.router.plan import PlanRules
from tests.support.router_peers import R1, R2, R3, SHARED, SPLIT, Cluster
from tests.support.router_world import (
    key,
    prompt_of,
    submit,
)
from tests.support.sim.loop import on_a_warped_clock

STATES = ["queued", "assigned", "accepted", "streaming", "cancelling"]


@on_a_warped_clock
async def test_an_attempt_is_assigned_placed_and_forgotten_at_its_end() -> None:
    cluster = await Cluster().start(*SPLIT)
    message = submit("r1")
    cluster.gateway0.router.send(message)
    await cluster.settle()
    assign = cluster.decode0.last(Assign)
    assert (assign.submit, assign.gateway) == (message, cluster.gateway0.me)
    assert assign.prefill == cluster.prefill0.me
    assert cluster.gateway0.all(Placed) == [Placed(R1, cluster.decode0.me, "prefill-0")]
    cluster.decode0.prompt_done(R1)
    cluster.decode0.end(R1)
    await cluster.settle()
    assert len(cluster.router.attempts) == 0
    assert cluster.gateway0.failures() == []


@on_a_warped_clock
async def test_without_prefill_workers_nobody_else_is_named() -> None:
    cluster = await Cluster().start("decode-0", "gateway-0")
    cluster.gateway0.router.send(submit("r1"))
    await cluster.settle()
    assert cluster.decode0.last(Assign).prefill is None
    assert cluster.gateway0.last(Placed).prefill == ""


@on_a_warped_clock
async def test_a_single_token_is_assigned_to_the_prefill_worker() -> None:
    cluster = await Cluster().start(*SPLIT)
    cluster.gateway0.router.send(submit("r1", max_tokens=1))
    await cluster.settle()
    assert cluster.prefill0.last(Assign).prefill is None
    assert cluster.decode0.all(Assign) == []
    assert cluster.gateway0.last(Placed).writer == cluster.prefill0.me


@on_a_warped_clock
async def test_a_refused_attempt_goes_to_another_worker() -> None:
    cluster = await Cluster().start("decode-0", "decode-1", "gateway-0")
    for worker in (cluster.decode0, cluster.decode1):
        worker.silent = True
    cluster.gateway0.router.send(submit("r1"))
    await cluster.settle()
    cluster.decode0.refuse(R1)
    await cluster.settle()
    assert R1 in cluster.decode1.assigned
    cluster.decode1.accept(R1)
    await cluster.settle()
    assert [placed.writer for placed in cluster.gateway0.all(Placed)] == [cluster.decode1.me]


@on_a_warped_clock
async def test_the_only_worker_is_asked_again_after_a_second_or_when_something_ended() -> None:
    cluster = await Cluster().start("decode-0", "gateway-0")
    cluster.gateway0.router.send(submit("r1"))
    await cluster.settle()
    cluster.decode0.silent = True
    for request in ("r2", "r3"):
        cluster.gateway0.router.send(submit(request))
    await cluster.settle()
    cluster.decode0.refuse(R2)
    await cluster.settle()
    assert len(cluster.decode0.all(Assign)) == 3
    cluster.decode0.refuse(R3)
    await asyncio.sleep(0.5)
    assert len(cluster.decode0.all(Assign)) == 3, "refusals free nothing"
    cluster.decode0.end(R1)
    await cluster.settle()
    again = [assign.submit.key for assign in cluster.decode0.all(Assign)[3:]]
    assert again == [R2, R3]
    cluster.decode0.refuse(R2)
    await asyncio.sleep(1.2)
    assert len(cluster.decode0.all(Assign)) == 6
    assert cluster.decode0.last(Assign).queue_ms > 1_000


@on_a_warped_clock
async def test_a_final_refusal_is_passed_on() -> None:
    cluster = await Cluster().start(*SPLIT)
    cluster.decode0.silent = True
    cluster.gateway0.router.send(submit("r1"))
    await cluster.settle()
    cluster.decode0.refuse(R1, ErrorCode.CAPACITY)
    await cluster.settle()
    assert cluster.gateway0.failures() == [(R1, ErrorCode.CAPACITY)]


@pytest.mark.parametrize("state", STATES)
@on_a_warped_clock
async def test_a_cancel_works_in_every_state(state: str) -> None:
    cluster = await Cluster().start(*SPLIT)
    await cluster.bring_to(state)
    cluster.decode0.silent = False
    before = len(cluster.decode0.all(Cancel))
    cluster.gateway0.router.send(Cancel(R1))
    await cluster.settle()
    if state == "queued":
        assert cluster.decode0.all(Cancel) == []
    elif state == "cancelling":
        assert len(cluster.decode0.all(Cancel)) == before
        cluster.decode0.end(R1)
        await cluster.settle()
    else:
        assert cluster.decode0.all(Cancel) == [Cancel(R1)]
    assert len(cluster.router.attempts) == 0
    assert cluster.gateway0.failures() == []


@on_a_warped_clock
async def test_a_cancel_that_is_never_answered_lapses() -> None:
    cluster = await Cluster().start(*SPLIT)
    await cluster.bring_to("cancelling")
    await asyncio.sleep(9.0)
    assert len(cluster.router.attempts) == 1
    await asyncio.sleep(1.5)
    assert len(cluster.router.attempts) == 0


@on_a_warped_clock
async def test_nobody_cancels_another_gateway_s_attempt() -> None:
    cluster = await Cluster().start(*SPLIT)
    cluster.join("gateway-1")
    await cluster.bring_to("streaming")
    cluster.gateway1.router.send(Cancel(R1))
    await cluster.settle()
    assert cluster.router.attempts.by_state()["streaming"] == 1


@pytest.mark.parametrize("state", STATES)
@on_a_warped_clock
async def test_the_death_of_the_writer_in_every_state(state: str) -> None:
    cluster = await Cluster().start(*SPLIT)
    await cluster.bring_to(state)
    cluster.decode0.die()
    await cluster.settle()
    assert len(cluster.router.attempts) == 0
    expected = {"queued": [(R1, ErrorCode.NO_WORKER)], "cancelling": []}
    assert cluster.gateway0.failures() == expected.get(state, [(R1, ErrorCode.WORKER_LOST)])
    assert all(failed.retryable for failed in cluster.gateway0.all(Failed))


@pytest.mark.parametrize("state", ["assigned", "accepted", "streaming"])
@on_a_warped_clock
async def test_the_death_of_the_prefill_worker_is_left_to_the_writer(state: str) -> None:
    cluster = await Cluster().start(*SPLIT)
    await cluster.bring_to(state)
    cluster.prefill0.die()
    await cluster.settle()
    assert cluster.gateway0.failures() == []
    assert cluster.router.attempts.by_state()[state] == 1


@on_a_warped_clock
async def test_a_gateway_that_falls_silent_has_its_attempts_cancelled() -> None:
    cluster = await Cluster().start(*SPLIT)
    await cluster.bring_to("streaming")
    cluster.decode0.load = Load(blocks_used=990, blocks_total=1_000)
    await asyncio.sleep(0.3)
    cluster.gateway0.router.send(submit("r2", SHARED))
    await cluster.settle()
    cluster.gateway0.die()
    await asyncio.sleep(2.5)
    assert len(cluster.router.attempts) == 2
    await asyncio.sleep(1.0)
    assert cluster.decode0.all(Cancel) == [Cancel(R1)]
    assert len(cluster.router.attempts) == 0


@on_a_warped_clock
@pytest.mark.parametrize("state", ["queued", "assigned", "accepted", "streaming"])
async def test_a_gateway_that_only_slept_learns_that_its_attempts_are_over(state: str) -> None:
    cluster = await Cluster().start(*SPLIT)
    await cluster.bring_to(state)
    cluster.gateway0.pulsing = False
    await asyncio.sleep(4.0)
    assert cluster.gateway0.failures() == [(R1, ErrorCode.ROUTER_LOST)]


@on_a_warped_clock
async def test_a_new_life_of_a_gateway_ends_the_attempts_of_the_old_one() -> None:
    cluster = await Cluster().start(*SPLIT)
    await cluster.bring_to("streaming")
    cluster.gateway0.die()
    cluster.join("gateway-0", 2)
    await cluster.settle()
    assert cluster.decode0.all(Cancel) == [Cancel(R1)]


@on_a_warped_clock
async def test_a_writer_that_lets_go_before_it_accepts_ends_the_attempt_and_stays() -> None:
    """It saw the death of the gateway before the router did."""
    cluster = await Cluster().start("decode-0", "gateway-0")
    await cluster.bring_to("assigned")
    cluster.decode0.end(R1)
    await cluster.settle()
    assert len(cluster.router.attempts) == 0
    assert cluster.router.fleet.members.get(cluster.decode0.me.id) is not None


@on_a_warped_clock
async def test_a_full_queue_answers_with_a_delay() -> None:
    cluster = await Cluster(queue_limit=2).start("decode-0", "gateway-0")
    await cluster.bring_to("queued")
    for request in ("r2", "r3"):
        cluster.gateway0.router.send(submit(request, SHARED))
    await cluster.settle()
    failed = cluster.gateway0.last(Failed)
    assert (failed.key, failed.code, failed.retryable) == (R3, ErrorCode.OVERLOADED, True)
    assert failed.retry_after_ms > 0
    await asyncio.sleep(0.6)
    assert cluster.gateway0.last(ClusterView).queued == 2


@on_a_warped_clock
async def test_what_waits_is_placed_by_priority_as_soon_as_there_is_room() -> None:
    cluster = await Cluster().start("decode-0", "gateway-0")
    await cluster.bring_to("queued")
    cluster.gateway0.router.send(submit("r2", SHARED, priority=-1))
    cluster.decode0.load = Load(blocks_total=1_000)
    await asyncio.sleep(0.3)
    assert [assign.submit.key for assign in cluster.decode0.all(Assign)] == [R2, R1]


@on_a_warped_clock
async def test_a_request_no_pool_can_hold_is_refused_at_once_and_blocks_nobody() -> None:
    cluster = await Cluster().start("gateway-0")
    cluster.join("decode-0", blocks=10)
    await cluster.settle()
    cluster.gateway0.router.send(submit("r1", prompt_of(11)))
    cluster.gateway0.router.send(submit("r2", prompt_of(2)))
    await cluster.settle()
    failed = cluster.gateway0.last(Failed)
    assert (failed.key, failed.code, failed.retryable) == (R1, ErrorCode.CAPACITY, False)
    assert "10" in failed.message
    assert R2 in cluster.decode0.assigned


@on_a_warped_clock
async def test_a_hopeless_request_is_refused_even_while_others_wait() -> None:
    cluster = await Cluster().start("decode-0", "gateway-0")
    await cluster.bring_to("queued")
    cluster.gateway0.router.send(submit("r2", prompt_of(1_000)))
    await cluster.settle()
    assert cluster.gateway0.failures() == [(R2, ErrorCode.CAPACITY)]


@on_a_warped_clock
async def test_without_a_decode_worker_the_answer_is_immediate() -> None:
    cluster = await Cluster().start("prefill-0", "gateway-0")
    cluster.gateway0.router.send(submit("r1"))
    await cluster.settle()
    failed = cluster.gateway0.last(Failed)
    assert (failed.code, failed.retryable, failed.retry_after_ms) == (
        ErrorCode.NO_WORKER,
        True,
        1_000,
    )


@on_a_warped_clock
async def test_a_deadline_passes_in_the_queue_and_shrinks_with_the_wait() -> None:
    cluster = await Cluster().start("decode-0", "gateway-0")
    await cluster.bring_to("queued")
    cluster.gateway0.router.send(submit("r2", SHARED, deadline_ms=500))
    cluster.gateway0.router.send(submit("r3", SHARED, deadline_ms=5_000))
    await asyncio.sleep(1.0)
    assert cluster.gateway0.failures() == [(R2, ErrorCode.DEADLINE)]
    cluster.decode0.load = Load(blocks_total=1_000)
    await asyncio.sleep(0.3)
    assert 3_500 < cluster.decode0.last(Assign).submit.deadline_ms < 4_100


@on_a_warped_clock
async def test_a_writer_speaks_only_for_its_own_attempts() -> None:
    cluster = await Cluster().start("decode-0", "decode-1", "gateway-0")
    await cluster.bring_to("streaming")
    cluster.gateway0.router.send(submit("r2"))
    await cluster.settle()
    cluster.decode1.say(R2, PromptDone(R1))
    cluster.decode1.say(R2, Failed(R1, ErrorCode.INTERNAL, "not mine"))
    await cluster.settle()
    assert cluster.gateway0.failures() == []
    assert cluster.router.attempts.by_state()["streaming"] == 1


@on_a_warped_clock
async def test_a_failure_after_acceptance_is_passed_on_and_not_retried() -> None:
    cluster = await Cluster().start("decode-0", "decode-1", "gateway-0")
    await cluster.bring_to("streaming")
    failed = Failed(R1, ErrorCode.INTERNAL, "broke", retryable=True)
    cluster.decode0.say(R1, failed)
    cluster.decode0.end(R1)
    await cluster.settle()
    assert cluster.gateway0.all(Failed) == [failed]
    assert cluster.decode1.all(Assign) == []


@on_a_warped_clock
async def test_a_later_attempt_ends_the_earlier_one_and_repeats_are_dropped() -> None:
    cluster = await Cluster().start("decode-0", "gateway-0")
    await cluster.bring_to("streaming")
    cluster.gateway0.router.send(submit("r1", attempt=2))
    cluster.gateway0.router.send(submit("r1", attempt=2))
    cluster.gateway0.router.send(submit("r1"))
    await cluster.settle()
    assert cluster.decode0.all(Cancel) == [Cancel(R1)]
    assert [assign.submit.key for assign in cluster.decode0.all(Assign)] == [R1, key("r1", 2)]


@on_a_warped_clock
async def test_the_number_of_sequences_a_worker_is_given_is_bounded() -> None:
    cluster = await Cluster(PlanRules(max_sequences=2)).start("decode-0", "gateway-0")
    for request in ("r1", "r2", "r3"):
        cluster.gateway0.router.send(submit(request))
    await cluster.settle()
    assert list(cluster.decode0.assigned) == [R1, R2]
    cluster.decode0.end(R1)
    await cluster.settle()
    assert list(cluster.decode0.assigned) == [R1, R2, R3]


@on_a_warped_clock
async def test_stories_tell_what_happened_to_an_attempt() -> None:
    cluster = await Cluster().start(*SPLIT)
    await cluster.bring_to("streaming")
    cluster.decode0.end(R1)
    cluster.gateway0.router.send(submit("r2"))
    await cluster.settle()
    action: Callable[[], Awaitable[Any]] = cluster.router.routes()["GET /debug/requests"]
    ended, living = (await action())["attempts"]
    assert (ended["request"], ended["state"], ended["writer"]) == ("r1", "ended", "decode-0")
    assert [step["after"] for step in ended["story"]] == [
        "assigned",
        "accepted",
        "streaming",
        "ended",
    ]
    assert (living["request"], living["state"]) == ("r2", "accepted")
