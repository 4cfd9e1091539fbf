"""Whole requests on real workers of both roles, with the messages a test plays around them."""

import asyncio

import pytest

from common.domain.errors import ErrorCode
from common.domain.finish import FinishReason
from common.domain.peer import Role
from common.engine.engine import EngineLimits
from common.wire.messages.cluster import Goodbye, Pulse
from common.wire.messages.events import SnapshotWanted
from common.wire.messages.submit import Failed
from common.wire.messages.tokens import FinishAck, Finished
from common.wire.messages.work import Accepted, Ended, PromptDone
from tests.support.engines import greedy, key, prompt_of
from tests.support.sim.loop import on_a_warped_clock
from tests.support.workers import BLOCK_TOKENS, Stage, failures

SMALL_STEPS = EngineLimits(step_tokens=32)


@pytest.mark.parametrize("length", [1, 31, 32, 33, 100])
def test_an_aggregated_request(length: int) -> None:
    @on_a_warped_clock
    async def run() -> None:
        async with Stage() as stage:
            decode = await stage.worker("decode-0")
            prompt, params = prompt_of(length), greedy(40)
            wanted = stage.assign(decode, stage.submit("a", prompt, params))
            finished = await stage.finish(wanted)
            stage.assert_output(wanted, prompt, params)
            assert stage.gateway.ends == {(wanted, 0): FinishReason.LENGTH}
            ledger = finished.ledger
            assert ledger.decode_prefill_tokens == length
            assert ledger.prefill_computed_tokens == ledger.transfer_bytes == 0
            assert (ledger.queue_ms, ledger.decode_steps) == (1.5, 39)
            assert ledger.reserve_ms > 0
            await stage.assert_idle()
            assert stage.router.about(wanted) == [Accepted, PromptDone, Ended]

    run()


@pytest.mark.parametrize("length", [5, 64, 100, 300])
def test_a_prompt_computed_elsewhere(length: int) -> None:
    @on_a_warped_clock
    async def run() -> None:
        async with Stage() as stage:
            prefill, decode = await stage.split(limits=SMALL_STEPS)
            prompt, params = prompt_of(length), greedy(20)
            wanted = stage.assign(decode, stage.submit("a", prompt, params), prefill)
            ledger = (await stage.finish(wanted)).ledger
            stage.assert_output(wanted, prompt, params)
            assert ledger.decode_prefill_tokens == 0
            assert ledger.prefill_computed_tokens == length
            blocks = -(-length // BLOCK_TOKENS)
            size = decode.node.layout.block_bytes
            assert ledger.transfer_bytes == stage.arenas.reads.bytes == blocks * size
            # What the last chunk completes comes late: its whole block, if any, and the tail.
            assert ledger.transfer_early_bytes == (length - 1) // BLOCK_TOKENS * size
            assert ledger.prefill_chunks == blocks
            await stage.assert_idle()
            assert decode.engine.cache.cached >= length // BLOCK_TOKENS
            assert stage.router.about(wanted) == [Accepted, PromptDone, Ended]

    run()


@on_a_warped_clock
async def test_the_first_token_does_not_wait_for_decodes_next_step() -> None:
    async with Stage() as stage:
        prefill, decode = await stage.split()
        wanted = stage.assign(decode, stage.submit("a", prompt_of(40)), prefill)
        await stage.until(lambda: (wanted, 0) in stage.gateway.tokens)
        assert decode.engine.steps == 0
        await stage.settle()
        assert stage.router.about(wanted) == [Accepted, PromptDone]
        await stage.finish(wanted)


@on_a_warped_clock
async def test_three_choices_share_one_hand_over() -> None:
    async with Stage() as stage:
        prefill, decode = await stage.split()
        prompt, params = prompt_of(70), greedy(30, n=3, temperature=0.9)
        wanted = stage.assign(decode, stage.submit("a", prompt, params), prefill)
        ledger = (await stage.finish(wanted)).ledger
        stage.assert_output(wanted, prompt, params)
        assert set(stage.gateway.ends) == {(wanted, choice) for choice in range(3)}
        assert ledger.transfer_bytes == 3 * decode.node.layout.block_bytes
        assert ledger.prefill_computed_tokens == 70
        await stage.assert_idle()


@on_a_warped_clock
async def test_one_token_needs_no_decode_worker() -> None:
    async with Stage() as stage:
        prefill = await stage.worker("prefill-0")
        prompt, params = prompt_of(50), greedy(1)
        wanted = stage.assign(prefill, stage.submit("a", prompt, params))
        ledger = (await stage.finish(wanted)).ledger
        stage.assert_output(wanted, prompt, params)
        assert (ledger.prefill_computed_tokens, ledger.decode_prefill_tokens) == (50, 0)
        await stage.assert_idle()


@on_a_warped_clock
async def test_one_token_after_a_hand_over_is_not_said_twice() -> None:
    async with Stage() as stage:
        prefill, decode = await stage.split()
        prompt, params = prompt_of(50), greedy(1)
        wanted = stage.assign(decode, stage.submit("a", prompt, params), prefill)
        await stage.finish(wanted)
        stage.assert_output(wanted, prompt, params)
        assert stage.gateway.ends == {(wanted, 0): FinishReason.LENGTH}
        await stage.assert_idle()


@on_a_warped_clock
async def test_many_requests_at_once_each_get_their_own_tokens() -> None:
    async with Stage() as stage:
        prefill = await stage.worker("prefill-0", slots=40, limits=SMALL_STEPS)
        decode = await stage.worker("decode-0", slots=24)
        requests = [
            (f"r{index}", prompt_of(20 + 17 * index, seed=index % 3), greedy(30, seed=index))
            for index in range(10)
        ]
        for index, (name, prompt, params) in enumerate(requests):
            helper = prefill if index % 3 else None
            stage.assign(decode, stage.submit(name, prompt, params), helper)
        for name, prompt, params in requests:
            await stage.finish(key(name))
            stage.assert_output(key(name), prompt, params)
        await stage.assert_idle()


@on_a_warped_clock
async def test_status_ready_and_pulse_say_what_is() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0", slots=16)
        assert decode.app.ready()
        stage.assign(decode, stage.submit("a", prompt_of(40), greedy(200)))
        await stage.until(lambda: len(stage.gateway.tokens) == 1)
        status = decode.app.status()
        assert (status["role"], status["model"], status["refused"]) == ("decode", "mock", "")
        assert (status["attempts"], status["running"], status["blocks_used"]) == (1, 1, 2)
        pulse = decode.heartbeat.beat()
        assert isinstance(pulse, Pulse)
        assert pulse.me.role is Role.DECODE
        assert (pulse.steps, pulse.load.running) == (decode.engine.steps, 1)
        assert decode.heartbeat.listeners == {stage.router.ref.address}
        await stage.until(lambda: stage.gateway.ref.address in decode.heartbeat.listeners)
        await stage.finish(key("a"))


@on_a_warped_clock
async def test_reset_forgets_what_nobody_uses() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        await stage.finish(stage.assign(decode, stage.submit("a", prompt_of(100))))
        await stage.assert_idle()
        assert decode.engine.cache.cached == 3
        (path, action), *_ = decode.app.routes().items()
        assert path == "POST /reset_prefix_cache"
        await action()
        await stage.until(lambda: decode.engine.cache.cached == 0)


@on_a_warped_clock
async def test_draining_says_goodbye_and_waits_for_the_last_acknowledgement() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        stage.gateway.acknowledges = False
        wanted = stage.assign(decode, stage.submit("a", prompt_of(40), greedy(5)))
        await stage.until(lambda: bool(stage.gateway.tokens))
        ended: list[bool] = []

        async def drain() -> None:
            await decode.app.drain()
            ended.append(True)

        decode.node.tasks.spawn(drain(), "drain")
        await stage.finish(wanted)
        await stage.settle()
        assert [goodbye.me.name for goodbye in stage.router.all(Goodbye)] == ["decode-0"]
        assert not decode.app.ready()
        assert not ended
        stage.gateway.watched[wanted].send(FinishAck(wanted))
        await stage.until(lambda: bool(ended))


@on_a_warped_clock
async def test_an_assign_that_crosses_the_goodbye_is_served() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        ended: list[bool] = []

        async def drain() -> None:
            await decode.app.drain()
            ended.append(True)

        decode.node.tasks.spawn(drain(), "drain")
        await asyncio.sleep(0.3)
        assert not ended
        wanted = stage.assign(decode, stage.submit("a", prompt_of(40), greedy(5)))
        await stage.finish(wanted)
        await stage.until(lambda: bool(ended))


@on_a_warped_clock
async def test_a_broken_assign_is_refused() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        good = stage.submit("a", prompt_of(40))
        for number, changes in enumerate(BROKEN):
            spoiled = stage.submit(f"b{number}", prompt_of(40), greedy(4))
            for name, value in changes.items():
                where = spoiled if hasattr(spoiled, name) else spoiled.sampling
                object.__setattr__(where, name, value)
            stage.assign(decode, spoiled)
        wanted = stage.assign(decode, good)
        await stage.finish(wanted)
        refused = {(f"b{number}", ErrorCode.INVALID_REQUEST) for number in range(len(BROKEN))}
        assert set(failures(stage.router)) == refused
        await stage.assert_idle()


BROKEN: list[dict[str, object]] = [
    {"prompt": b""},
    {"prompt": b"\x01\x00\x00"},
    {"prompt": (260).to_bytes(4, "little")},
    {"prompt": b"\xff\xff\xff\xff"},
    {"units": b"short"},
    {"n": 0},
    {"n": 10**9},
    {"max_tokens": 0},
    {"seed": -1},
    {"logit_bias": ((260, 1.0),)},
]


@on_a_warped_clock
async def test_what_a_worker_must_not_hear_changes_nothing() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        link = stage.router.to["decode-0"]
        wanted = stage.assign(decode, stage.submit("a", prompt_of(40)))
        for message in (
            Accepted(wanted),
            Ended(wanted),
            Pulse(stage.router.ref, 1),
            Failed(wanted, ErrorCode.INTERNAL, "not yours to say"),
            Finished(wanted, (await stage.finish(wanted)).ledger),
        ):
            link.send(message)
        link.send(SnapshotWanted())
        await stage.assert_idle()
        assert failures(stage.router) == failures(stage.gateway) == []
