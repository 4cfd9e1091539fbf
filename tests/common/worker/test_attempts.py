"""Attempts of one writer: refusals, deadlines, deaths, books, and ends that must be heard."""

import pytest

from common.domain.errors import ErrorCode
from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.domain.ledger import Ledger
from common.domain.peer import PeerRef, Role
from common.wire.columns import pack_i32
from common.wire.messages.submit import Cancel, Failed
from common.wire.messages.tokens import FinishAck, TokenLogprobs
from common.wire.messages.work import (
    Accepted,
    Assign,
    Blocks,
    Ended,
    FirstTokens,
    Prefill,
    PromptDone,
    Released,
)
from tests.support.engines import greedy, key, prompt_of
from tests.support.sim.loop import on_a_warped_clock
from tests.support.workers import Peer, Site, Stage, failures


class Helper(Peer):
    """A prefill worker that says what a test tells it."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.network, "prefill-8", Role.PREFILL)
        self._stage = stage

    async def asked(self) -> Prefill:
        await self._stage.until(lambda: bool(self.all(Prefill)))
        return self.all(Prefill)[0]

    def say(self, message: Blocks | FirstTokens | Failed) -> None:
        link = next(link for link, heard in self.heard if isinstance(heard, Prefill))
        link.send(message)

    def as_site(self, like: Site) -> Site:
        return Site(like.app, like.engine, like.arena, self.ref, like.heartbeat)


@on_a_warped_clock
async def test_a_prompt_larger_than_the_pool_is_refused_to_the_router_alone() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0", slots=4)
        wanted = stage.assign(decode, stage.submit("a", prompt_of(200)))
        await stage.until(lambda: bool(stage.router.all(Failed)))
        (failed,) = stage.router.all(Failed)
        assert (failed.key, failed.code, failed.retryable) == (wanted, ErrorCode.CAPACITY, False)
        await stage.settle()
        assert stage.router.about(wanted) == [Failed], "it may be another writer's by now"
        assert stage.gateway.finished == {}
        await stage.assert_idle()


@on_a_warped_clock
async def test_a_deadline_before_acceptance_is_told_to_the_router() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        stage.assign(decode, stage.submit("other", prompt_of(1_700), greedy(300)))
        await stage.until(lambda: decode.engine.steps > 3)
        wanted = stage.assign(
            decode, stage.submit("late", prompt_of(300, seed=1), deadline_ms=1_500)
        )
        await stage.until(lambda: bool(failures(stage.router)))
        assert failures(stage.router) == [("late", ErrorCode.DEADLINE)]
        assert not stage.router.all(Failed)[0].retryable, "another worker is no earlier"
        await stage.settle()
        assert stage.router.about(wanted) == [Failed]
        stage.cancel(decode, key("other"))
        await stage.assert_idle()


@on_a_warped_clock
async def test_a_deadline_while_it_streams_is_told_to_the_gateway() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        submit = stage.submit("a", prompt_of(40), greedy(1_000), deadline_ms=2_500)
        wanted = stage.assign(decode, submit)
        await stage.until(lambda: bool(failures(stage.gateway)))
        assert failures(stage.gateway) == [("a", ErrorCode.DEADLINE)]
        assert 240 < len(stage.gateway.tokens[wanted, 0]) < 310
        await stage.assert_idle()
        await stage.settle()
        assert stage.router.about(wanted) == [Accepted, PromptDone, Ended]


@on_a_warped_clock
async def test_the_end_is_said_again_until_it_is_acknowledged() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        stage.gateway.acknowledges = False
        wanted = stage.assign(decode, stage.submit("a", prompt_of(40)))
        await stage.until(lambda: len(stage.gateway.finished.get(wanted, [])) == 4)
        first, *others = stage.gateway.finished[wanted]
        assert others == [first] * 3
        stage.gateway.watched[wanted].send(FinishAck(wanted))
        await stage.until(lambda: len(decode.app._attempts.writer) == 0)
        said = len(stage.gateway.finished[wanted])
        decode.app._attempts.tick(1e9)
        await stage.settle()
        assert len(stage.gateway.finished[wanted]) == said


@on_a_warped_clock
async def test_an_end_is_not_kept_for_a_gateway_that_has_died() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        stage.gateway.acknowledges = False
        await stage.finish(stage.assign(decode, stage.submit("a", prompt_of(40))))
        assert len(decode.app._attempts.writer) == 1
        stage.gateway.die()
        await stage.settle()
        assert len(decode.app._attempts.writer) == 0


@on_a_warped_clock
async def test_a_gateway_that_was_never_there_gets_nothing_and_holds_nothing() -> None:
    async with Stage() as stage:
        await stage.worker("decode-0")
        gone = PeerRef(ProcessName("gateway-5"), Incarnation(1), Role.GATEWAY, "mem://gone")
        submit = stage.submit("a", prompt_of(40), greedy(1_000))
        stage.router.to["decode-0"].send(Assign(submit, gone, None))
        await stage.settle()
        await stage.assert_idle()
        await stage.settle()
        assert stage.router.about(submit.key)[-1] is Ended


@on_a_warped_clock
async def test_an_assign_that_comes_twice_is_one_attempt() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        submit = stage.submit("a", prompt_of(40))
        stage.assign(decode, submit)
        wanted = stage.assign(decode, submit)
        await stage.finish(wanted)
        stage.assert_output(wanted, prompt_of(40), greedy(8))
        assert stage.router.about(wanted).count(Accepted) == 1


@on_a_warped_clock
async def test_cancel_comes_from_the_gateway_too_and_unknown_ones_are_ignored() -> None:
    async with Stage() as stage:
        prefill, decode = await stage.split()
        wanted = stage.assign(decode, stage.submit("a", prompt_of(600), greedy(1_000)), prefill)
        await stage.until(lambda: (wanted, 0) in stage.gateway.tokens)
        stage.gateway.watched[wanted].send(Cancel(key("unknown")))
        stage.gateway.watched[wanted].send(Cancel(wanted))
        await stage.assert_idle()


@on_a_warped_clock
async def test_a_cancelled_attempt_says_what_it_had_cost() -> None:
    async with Stage() as stage:
        prefill, decode = await stage.split()
        submit = stage.submit("a", prompt_of(100), greedy(1_000))
        wanted = stage.assign(decode, submit, prefill)
        await stage.until(lambda: len(stage.gateway.tokens.get((wanted, 0), [])) == 11)
        stage.cancel(decode, wanted)
        ledger = (await stage.finish(wanted)).ledger
        assert ledger.prefill_computed_tokens == 100
        assert 10 <= ledger.decode_steps <= 12
        assert ledger.transfer_bytes == 4 * decode.node.layout.block_bytes
        await stage.assert_idle()


@on_a_warped_clock
async def test_every_prompt_token_is_accounted_for_once_though_both_sides_have_caches() -> None:
    async with Stage() as stage:
        prefill, decode = await stage.split()
        await stage.finish(stage.assign(decode, stage.submit("a", prompt_of(100)), prefill))
        await stage.assert_idle()
        longer = stage.submit("b", prompt_of(200))
        ledger = (await stage.finish(stage.assign(decode, longer, prefill))).ledger
        assert (ledger.cached_device_tokens, ledger.prefill_computed_tokens) == (96, 104)
        assert ledger.transfer_bytes == 4 * decode.node.layout.block_bytes


@on_a_warped_clock
async def test_log_probabilities_reach_the_gateway_for_whoever_asked() -> None:
    async with Stage() as stage:
        prefill, decode = await stage.split()
        stage.assign(decode, stage.submit("a", prompt_of(40), greedy(4, logprobs=1)), prefill)
        stage.assign(decode, stage.submit("b", prompt_of(40, 1), greedy(4)), prefill)
        await stage.finish(key("a"))
        await stage.finish(key("b"))
        with_logprobs = 0
        for _, message in stage.gateway.heard:
            if hasattr(message, "with_logprobs"):
                with_logprobs += len(message.logprobs)
                assert sum(message.with_logprobs) == len(message.logprobs)
        assert with_logprobs == 4


@pytest.mark.parametrize(
    ("tokens", "logprobs"),
    [
        (pack_i32([65]), ()),
        (pack_i32([65, 66, 67]), ()),
        (b"\x01", ()),
        (pack_i32([65, 260]), ()),
        (pack_i32([65, -1]), ()),
        (pack_i32([65, 66]), (TokenLogprobs(-1.0, b"", ()),)),
        (pack_i32([65, 66]), (TokenLogprobs(-1.0, b"", (1.0,)),) * 2),
    ],
)
def test_first_tokens_that_make_no_sense_hurt_nobody(
    tokens: bytes, logprobs: tuple[TokenLogprobs, ...]
) -> None:
    @on_a_warped_clock
    async def run() -> None:
        async with Stage() as stage:
            decode = await stage.worker("decode-0")
            helper = Helper(stage)
            prompt, params = prompt_of(40), greedy(5, n=2)
            wanted = stage.assign(decode, stage.submit("a", prompt, params), helper.as_site(decode))
            await helper.asked()
            helper.say(FirstTokens(wanted, tokens, Ledger(), logprobs))
            helper.say(FirstTokens(wanted, tokens, Ledger(), logprobs))
            await stage.settle()
            assert stage.gateway.tokens == {}
            helper.say(Failed(wanted, ErrorCode.INTERNAL, "and that was all"))
            await stage.finish(wanted)
            stage.assert_output(wanted, prompt, params)
            await stage.assert_idle()

    run()


@on_a_warped_clock
async def test_a_refusing_helper_is_not_waited_for() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        helper = Helper(stage)
        wanted = stage.assign(decode, stage.submit("a", prompt_of(40)), helper.as_site(decode))
        await helper.asked()
        helper.say(Failed(wanted, ErrorCode.CAPACITY, "too small", retryable=True))
        ledger = (await stage.finish(wanted)).ledger
        stage.assert_output(wanted, prompt_of(40), greedy(8))
        assert ledger.decode_prefill_tokens == 40
        assert helper.all(Cancel) == [Cancel(wanted)]
        assert helper.all(Released) == []
        await stage.assert_idle()


@on_a_warped_clock
async def test_what_a_helper_says_of_no_attempt_of_ours_is_ignored() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        helper = Helper(stage)
        wanted = stage.assign(decode, stage.submit("a", prompt_of(40)), helper.as_site(decode))
        await helper.asked()
        other = key("other")
        helper.say(Blocks(other, 0, b"\x00", b"", b"", last=True))
        helper.say(Failed(other, ErrorCode.INTERNAL, ""))
        helper.say(FirstTokens(other, b"", Ledger()))
        helper.say(Failed(wanted, ErrorCode.INTERNAL, ""))
        await stage.finish(wanted)
        stage.assert_output(wanted, prompt_of(40), greedy(8))


@on_a_warped_clock
async def test_an_attempt_from_each_of_two_gateways_ends_with_its_own() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        other = type(stage.gateway)(stage.network, "gateway-1")
        mine = stage.assign(decode, stage.submit("mine", prompt_of(40), greedy(50)))
        theirs = stage.submit("theirs", prompt_of(40, 1), greedy(50))
        stage.router.to["decode-0"].send(Assign(theirs, other.ref, None))
        await stage.until(lambda: bool(other.tokens) and bool(stage.gateway.tokens))
        assert decode.app._attempts._gateways.peers() == [
            ProcessId(stage.gateway.ref.name, stage.gateway.ref.incarnation),
            other.ref.id,
        ]
        other.die()
        await stage.finish(mine)
        stage.assert_output(mine, prompt_of(40), greedy(50))
        assert {stream[0].request for stream in stage.gateway.tokens} == {"mine"}
        await stage.assert_idle()
