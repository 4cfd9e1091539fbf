"""Streams and their attempts: who is told what, on a clock that jumps."""

import asyncio

import pytest

from common.domain.errors import ErrorCode
from common.domain.finish import FinishReason
from common.domain.ids import AttemptKey, RequestId
from common.domain.ledger import Ledger
from common.domain.peer import Role
from common.wire.messages.submit import Cancel, Failed
from common.wire.messages.tokens import FinishAck, Finished, TokenBatch
from services.gateway.app import GatewayApp
from services.gateway.exchange import AttemptLost
from services.gateway.streams import StreamState
from tests.support.gateway import FakeCluster, Peer, row, submit, until
from tests.support.gateway_scenes import played, started, state


def test_a_stream_from_submit_to_acknowledgement() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        exchange = submit(app)
        asked = await cluster.submits.get()
        cluster.play(asked, [list(b"abc")], FinishReason.LENGTH)
        await state(exchange, StreamState.FINISHED)
        await until(lambda: FinishAck(asked.key) in cluster.worker.heard)
        assert "".join((await exchange.take())[0].text) == "abc"
        assert (await exchange.ledger()).cached_tokens == 16
        assert len(app.attempts) == 0

    played(play)


def test_finished_is_acknowledged_even_for_a_stream_nobody_knows() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        key = AttemptKey(RequestId("old"), 1)
        cluster.from_worker(Finished(key, Ledger()))
        await until(lambda: FinishAck(key) in cluster.worker.heard)

    played(play)


@pytest.mark.parametrize("attempt", [0, 2])
def test_tokens_of_an_attempt_that_does_not_live_are_answered_with_cancel(attempt: int) -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        _, asked = await started(app, cluster)
        stale = AttemptKey(asked.key.request, attempt)
        cluster.from_worker(row(stale, [1], start=1))
        await until(lambda: Cancel(stale) in cluster.worker.heard)
        assert len(app.attempts) == 1

    played(play)


def test_tokens_of_a_worker_that_does_not_write_the_stream_are_answered_with_cancel() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        exchange, asked = await started(app, cluster)
        stranger = Peer(cluster.network, "decode-9", Role.DECODE)
        stranger.port.connect("mem://gateway-0").send(row(asked.key, [66], start=1))
        await until(lambda: stranger.heard == [Cancel(asked.key)])
        assert exchange.streams[0].received == [1]

    played(play)


def test_leaving_cancels_through_router_and_writer() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        exchange, asked = await started(app, cluster)
        app.attempts.leave(exchange)
        assert len(app.attempts) == 0
        await until(lambda: Cancel(asked.key) in cluster.router.heard)
        await until(lambda: Cancel(asked.key) in cluster.worker.heard)
        assert exchange.streams[0].state is StreamState.CANCELLED

    played(play)


def test_a_stop_string_cancels_and_takes_the_ledger_that_comes_back() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        exchange = submit(app, 8, 1, "B")
        asked = await cluster.submits.get()
        cluster.place(asked)
        cluster.from_worker(row(asked.key, list(b"ABCD")))
        await until(lambda: Cancel(asked.key) in cluster.router.heard)
        cluster.finish(asked, cached=5)
        assert (await exchange.ledger()).cached_tokens == 5
        assert exchange.completion_tokens == 2

    played(play)


def test_a_stop_string_does_not_wait_long_for_a_ledger() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        exchange = submit(app, 8, 1, "B")
        asked = await cluster.submits.get()
        cluster.place(asked)
        cluster.from_worker(row(asked.key, list(b"AB")))
        await exchange.take()
        before = asyncio.get_running_loop().time()
        assert (await exchange.ledger()).cached_tokens == 0
        assert asyncio.get_running_loop().time() - before <= 0.3

    played(play)


def test_a_dead_writer_fails_its_streams_at_once() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        exchange, _ = await started(app, cluster)
        before = asyncio.get_running_loop().time()
        cluster.kill_worker()
        await state(exchange, StreamState.FAILED)
        assert asyncio.get_running_loop().time() - before < 0.1
        assert exchange.failure is not None
        assert exchange.failure.code is ErrorCode.WORKER_LOST
        assert exchange.failure.retryable

    played(play)


def test_without_the_router_placed_streams_go_on_and_waiting_ones_fail() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        running, asked = await started(app, cluster)
        waiting = submit(app)
        await cluster.submits.get()
        cluster.kill_router()
        await state(waiting, StreamState.FAILED)
        assert waiting.failure is not None
        assert waiting.failure.code is ErrorCode.ROUTER_LOST
        cluster.from_worker(row(asked.key, [66], start=1, finish=FinishReason.STOP))
        cluster.finish(asked)
        await state(running, StreamState.FINISHED)
        with pytest.raises(AttemptLost):
            submit(app)

    played(play)


def test_a_hundred_streams_share_one_batch() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        exchanges = [submit(app) for _ in range(100)]
        batches = []
        for _ in exchanges:
            asked = await cluster.submits.get()
            cluster.place(asked)
            batches.append(row(asked.key, [65], finish=FinishReason.STOP))
        cluster.from_worker(
            TokenBatch(
                requests=tuple(b.requests[0] for b in batches),
                **{
                    name: b"".join(getattr(b, name) for b in batches)
                    for name in ("attempts", "choices", "starts", "counts", "tokens", "finishes")
                },
            )
        )
        for exchange in exchanges:
            await state(exchange, StreamState.CLOSING)

    played(play)


def test_a_stranger_can_neither_fail_nor_finish_a_stream() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        exchange, asked = await started(app, cluster)
        stranger = Peer(cluster.network, "decode-9", Role.DECODE)
        link = stranger.port.connect("mem://gateway-0")
        link.send(Failed(asked.key, ErrorCode.INTERNAL, "no"))
        link.send(Finished(asked.key, Ledger()))
        await until(lambda: stranger.heard == [FinishAck(asked.key)])
        assert exchange.streams[0].state is StreamState.STREAMING

    played(play)


def test_a_request_carries_what_is_left_of_its_time() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        app.attempts.limit_s = 2.5
        submit(app)
        asked = await cluster.submits.get()
        assert asked.deadline_ms == 2500

    played(play)
