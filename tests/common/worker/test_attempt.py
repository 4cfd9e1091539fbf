"""The way from Assign to a running sequence: whatever comes in between, nothing stays held."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from common.domain.block import ArenaRef, Descriptor
from common.domain.ids import AttemptKey
from common.domain.peer import PeerRef, Role
from common.engine.engine import EngineLimits
from common.engine.job import Drop, Revoke
from common.engine.schedulers.chunked import Chunked
from common.engine.step_plan import Budget
from common.wire.messages.store import Found, LeaseDone, Lookup
from common.wire.messages.submit import Cancel
from common.wire.messages.work import Accepted, Ended, Prefill, PromptDone, Renew
from tests.support.engines import greedy, key, prompt_of
from tests.support.sim.loop import on_a_warped_clock
from tests.support.workers import Peer, Site, Stage

LONG = prompt_of(600, seed=5)
SMALL_STEPS = EngineLimits(step_tokens=32)
Enter = Callable[[Stage, Site, Site], Coroutine[Any, Any, AttemptKey]]


async def waiting(stage: Stage, prefill: Site, decode: Site) -> AttemptKey:
    """The pool is another's."""
    other = stage.submit("other", prompt_of(1_700, seed=9), greedy(300))
    stage.assign(decode, other)
    await stage.until(lambda: decode.engine.running == 1)
    wanted = stage.assign(decode, stage.submit("a", LONG), prefill)
    await stage.until(lambda: decode.engine.waiting == 1)
    return wanted


async def onboarding(stage: Stage, prefill: Site, decode: Site) -> AttemptKey:
    """Held, while a store does not answer."""
    silent = SilentStore(stage)
    await stage.use_store(silent.ref)
    wanted = stage.assign(decode, stage.submit("a", LONG), prefill)
    await stage.until(lambda: bool(silent.all(Lookup)))
    return wanted


async def fetching(stage: Stage, prefill: Site, decode: Site) -> AttemptKey:
    wanted = stage.assign(decode, stage.submit("a", LONG), prefill)
    await stage.until(lambda: stage.arenas.reads.bytes > 3 * decode.node.layout.block_bytes)
    return wanted


async def decode_computing(stage: Stage, prefill: Site, decode: Site) -> AttemptKey:
    decode.engine._scheduler = Chunked(Budget(32, 32))
    wanted = stage.assign(decode, stage.submit("a", LONG))
    await stage.until(lambda: decode.engine.steps >= 3)
    return wanted


async def running(stage: Stage, prefill: Site, decode: Site) -> AttemptKey:
    wanted = stage.assign(decode, stage.submit("a", LONG, greedy(1_000, n=2)), prefill)
    await stage.until(lambda: len(stage.gateway.tokens.get((wanted, 1), [])) > 5)
    return wanted


class SilentStore(Peer):
    """Has an arena, so it is asked; answers when the test says so."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.network, "kvstore-9", Role.KVSTORE)
        arena = ArenaRef("kvstore-9", 1, "", "", "", 4096, 8)
        me = self.ref
        self.ref = PeerRef(me.name, me.incarnation, me.role, me.address, arena)


STAGES = [waiting, onboarding, fetching, decode_computing, running]


@pytest.mark.parametrize("enter", STAGES)
def test_cancel_in_every_stage_leaves_nothing(enter: Enter) -> None:
    @on_a_warped_clock
    async def run() -> None:
        async with Stage() as stage:
            prefill, decode = await stage.split(limits=SMALL_STEPS)
            wanted = await enter(stage, prefill, decode)
            stage.cancel(decode, wanted)
            stage.cancel(decode, wanted)
            if enter is waiting:
                await stage.settle()
                stage.cancel(decode, key("other"))
            await stage.assert_idle()
            await stage.until(lambda: wanted in stage.gateway.finished)
            await stage.settle()
            assert stage.router.about(wanted)[-1] is Ended
            assert stage.router.about(wanted).count(Ended) == 1
            assert len(decode.app._attempts.writer) == 0
            assert not decode.app._attempts._cancelled

    run()


@pytest.mark.parametrize("enter", STAGES)
def test_a_dead_gateway_frees_everything_in_every_stage(enter: Enter) -> None:
    @on_a_warped_clock
    async def run() -> None:
        async with Stage() as stage:
            prefill, decode = await stage.split(limits=SMALL_STEPS)
            wanted = await enter(stage, prefill, decode)
            stage.gateway.die()
            await stage.assert_idle()
            await stage.until(lambda: not decode.app._attempts._cancelled, limit_s=0.1)
            assert stage.router.about(wanted)[-1] is Ended
            assert len(decode.app._attempts.writer) == 0
            router_alone = {stage.router.ref.address}
            await stage.until(lambda: decode.heartbeat.listeners == router_alone)

    run()


@pytest.mark.parametrize("enter", [waiting, onboarding, fetching, running])
def test_a_dead_prefill_worker_costs_time_and_never_the_request(enter: Enter) -> None:
    @on_a_warped_clock
    async def run() -> None:
        async with Stage() as stage:
            prefill, decode = await stage.split(limits=SMALL_STEPS)
            wanted = await enter(stage, prefill, decode)
            await stage.kill(prefill)
            ledger = (await stage.finish(wanted)).ledger
            params = greedy(1_000, n=2) if enter is running else greedy(8)
            stage.assert_output(wanted, LONG, params)
            size = decode.node.layout.block_bytes
            got = ledger.transfer_bytes // size * 32
            if enter is running:
                assert ledger.decode_prefill_tokens == 0
            else:
                assert ledger.decode_prefill_tokens == len(LONG) - got
                assert (got > 0) == (enter is fetching)
            await stage.assert_idle(30.0)

    run()


@pytest.mark.parametrize("length", [64, 70])
def test_a_prefill_worker_that_dies_with_the_first_token_alone_unsaid(length: int) -> None:
    @on_a_warped_clock
    async def run() -> None:
        async with Stage() as stage:
            prefill, decode = await stage.split()
            prefill.app._hand_offs._send_first = lambda hand_off, event: None
            blocks = -(-length // 32) * decode.node.layout.block_bytes
            wanted = stage.assign(decode, stage.submit("a", prompt_of(length)), prefill)
            await stage.until(lambda: stage.arenas.reads.bytes == blocks)
            await stage.kill(prefill)
            ledger = (await stage.finish(wanted)).ledger
            stage.assert_output(wanted, prompt_of(length), greedy(8))
            assert ledger.decode_prefill_tokens == length - (length - 1) // 32 * 32
            await stage.assert_idle()

    run()


@on_a_warped_clock
async def test_a_prefill_worker_that_is_not_there_at_all_is_not_waited_for() -> None:
    async with Stage() as stage:
        prefill, decode = await stage.split()
        await stage.kill(prefill)
        wanted = stage.assign(decode, stage.submit("a", prompt_of(100)), prefill)
        await stage.finish(wanted)
        stage.assert_output(wanted, prompt_of(100), greedy(8))
        assert asyncio.get_running_loop().time() < 1.0
        await stage.assert_idle()


@on_a_warped_clock
async def test_a_prefill_worker_that_says_nothing_is_given_up_in_the_end() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        mute = Peer(stage.network, "prefill-7", Role.PREFILL)
        stage.sites["prefill-7"] = site = Site(
            decode.app, decode.engine, decode.arena, mute.ref, decode.heartbeat
        )
        wanted = stage.assign(decode, stage.submit("a", prompt_of(100)), site)
        del stage.sites["prefill-7"]
        await stage.finish(wanted)
        stage.assert_output(wanted, prompt_of(100), greedy(8))
        renewed = mute.all(Renew)
        assert len(mute.all(Prefill)) == 1
        assert len(renewed) >= 28, "once a second while it was waited for"
        assert set(renewed) == {Renew((wanted,))}
        assert mute.all(Cancel) == [Cancel(wanted)], "so that it lets go when it wakes up"
        await stage.assert_idle()


def spoiling(stage: Stage, holder: Site, number: int) -> None:
    """Flip a bit of the `number`th block that is read, in its holder's memory, before it is."""
    read = itertools.count()

    def spoil(ref: ArenaRef, blocks: Sequence[Descriptor]) -> None:
        for block in blocks:
            if next(read) == number:
                holder.arena.view(block.slot)[7] ^= 1

    stage.arenas.reads.before = spoil


@pytest.mark.parametrize("bad_block", [0, 4, 18])
def test_a_corrupted_block_is_computed_again(bad_block: int) -> None:
    @on_a_warped_clock
    async def run() -> None:
        async with Stage() as stage:
            prefill, decode = await stage.split(limits=SMALL_STEPS)
            spoiling(stage, prefill, bad_block)
            wanted = stage.assign(decode, stage.submit("a", LONG), prefill)
            ledger = (await stage.finish(wanted)).ledger
            stage.assert_output(wanted, LONG, greedy(8))
            assert ledger.transfer_bytes == bad_block * decode.node.layout.block_bytes
            assert ledger.decode_prefill_tokens == len(LONG) - 32 * bad_block
            await stage.assert_idle()

    run()


@on_a_warped_clock
async def test_a_lease_that_is_not_renewed_ends_the_attempt() -> None:
    async with Stage() as stage:
        prefill, decode = await stage.split()
        params = greedy(3_000)
        kept = stage.assign(decode, stage.submit("kept", prompt_of(40), params), prefill)
        lost = stage.assign(decode, stage.submit("lost", prompt_of(40, 1), params), prefill)
        del stage.gateway.watched[lost]
        await stage.until(lambda: Ended in stage.router.about(lost))
        assert 400 < len(stage.gateway.tokens[lost, 0]) < 700, "five to six seconds of steps"
        await stage.until(lambda: len(stage.gateway.tokens[kept, 0]) > 900)
        stage.gateway.renews = False
        await stage.until(lambda: Ended in stage.router.about(kept), limit_s=7)
        await stage.assert_idle()


@on_a_warped_clock
async def test_a_reservation_that_is_wanted_back_comes_again_and_is_computed_here() -> None:
    async with Stage() as stage:
        prefill, decode = await stage.split(limits=SMALL_STEPS)
        wanted = await fetching(stage, prefill, decode)
        decode.app._on_events([Revoke(wanted)])
        await stage.until(lambda: len(prefill.app._hand_offs) == 0, limit_s=1)
        ledger = (await stage.finish(wanted)).ledger
        stage.assert_output(wanted, LONG, greedy(8))
        got = ledger.transfer_bytes // decode.node.layout.block_bytes
        assert 3 < got < 19
        # What had been taken over was given up, and nobody is asked a second time.
        assert ledger.decode_prefill_tokens == 600
        assert stage.router.about(wanted) == [Accepted, PromptDone, Ended]
        await stage.assert_idle()


@on_a_warped_clock
async def test_a_starved_sequence_gets_the_blocks_of_the_youngest_reservation() -> None:
    async with Stage() as stage:
        prefill = await stage.worker("prefill-0", limits=EngineLimits(step_tokens=16))
        decode = await stage.worker("decode-0", slots=43)
        longer = prompt_of(1_200, seed=6)
        first = stage.assign(decode, stage.submit("first", prompt_of(100), greedy(500)))
        await stage.until(lambda: decode.engine.steps > 3)
        second = stage.assign(decode, stage.submit("second", longer), prefill)
        await stage.settle()
        await stage.until(lambda: decode.app._attempts._open[second].fetch is not None)
        revoked: list[AttemptKey] = []
        on_event = decode.app._attempts.on_event

        def note(event: object) -> bool:
            if isinstance(event, Revoke):
                revoked.append(event.key)
            return on_event(event)

        decode.app._attempts.on_event = note
        await stage.finish(first)
        await stage.finish(second)
        assert revoked == [second]
        stage.assert_output(first, prompt_of(100), greedy(500))
        stage.assert_output(second, longer, greedy(8))
        await stage.assert_idle()


@on_a_warped_clock
async def test_a_late_answer_of_the_store_writes_into_nothing() -> None:
    async with Stage() as stage:
        _prefill, decode = await stage.split()
        silent = SilentStore(stage)
        await stage.use_store(silent.ref)
        wanted = stage.assign(decode, stage.submit("a", LONG))
        await stage.until(lambda: bool(silent.all(Lookup)))
        link = next(link for link, message in silent.heard if isinstance(message, Lookup))
        (lookup,) = silent.all(Lookup)
        await stage.finish(wanted)
        stage.assert_output(wanted, LONG, greedy(8))
        link.send(Found(lookup.lookup, 77, bytes(4), bytes(4), bytes(4)))
        await stage.settle()
        assert silent.all(LeaseDone) == [LeaseDone(77)]
        assert stage.arenas.reads.bytes == 0


@on_a_warped_clock
async def test_the_engine_is_told_to_drop_only_when_the_last_copy_has_ended() -> None:
    """A block that is still written to must not be another's."""
    async with Stage() as stage:
        silent = SilentStore(stage)
        decode = await stage.worker("decode-0")
        await stage.use_store(silent.ref)
        wanted = stage.assign(decode, stage.submit("a", LONG))
        await stage.until(lambda: bool(silent.all(Lookup)))
        commands: list[object] = []
        submit = decode.node.host.submit
        decode.node.host.submit = lambda command: (commands.append(command), submit(command))
        stage.cancel(decode, wanted)
        await stage.settle()
        await stage.settle()
        assert Drop(wanted) not in commands
        await stage.until(lambda: Drop(wanted) in commands)
        await stage.assert_idle()
