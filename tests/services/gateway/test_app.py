"""The wire side on a clock that jumps: who is known, and who counts as lost when."""

import asyncio
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from common.domain.errors import ErrorCode, ProtocolError
from common.domain.finish import FinishReason
from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.domain.peer import PeerRef, Role
from common.wire.messages import Message
from common.wire.messages.cluster import ClusterView, Hello, Pulse
from common.wire.messages.submit import Failed, Placed, Submit
from common.wire.messages.work import Accepted, Renew
from common.wire.port import Link
from common.wire.zmq_port import ZmqPort
from services.gateway.app import GatewayApp, build
from services.gateway.settings import GatewaySettings
from services.gateway.streams import StreamState
from tests.support.gateway import CARD, FakeCluster, Peer, row, submit, until
from tests.support.gateway_scenes import played, started, state


def test_hello_introduces_a_gateway_without_a_card() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        (hello,) = cluster.router.kept(Hello)
        assert hello == Hello(app.me)
        assert app.me.role is Role.GATEWAY

    played(play)


def test_a_batch_of_broken_columns_drops_the_peer_not_the_process() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        _, asked = await started(app, cluster)
        broken = row(asked.key, [1], start=1)
        cluster.from_worker(replace(broken, counts=b""))
        await asyncio.sleep(0.1)
        assert len(app.attempts) == 1

    played(play)


def test_a_writer_is_told_every_second_which_streams_live() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        _, asked = await started(app, cluster)
        await asyncio.sleep(10)
        renewals = cluster.worker.kept(Renew)
        assert 9 <= len(renewals) <= 11
        assert set(renewals) == {Renew((asked.key,))}
        cluster.from_worker(row(asked.key, [66], start=1, finish=FinishReason.STOP))
        cluster.finish(asked)
        await until(lambda: len(app.attempts) == 0)
        count = len(cluster.worker.kept(Renew))
        await asyncio.sleep(5)
        assert len(cluster.worker.kept(Renew)) == count

    played(play)


def test_a_writer_that_says_nothing_for_three_seconds_is_lost() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        exchange, _ = await started(app, cluster)
        await asyncio.sleep(10)
        assert exchange.streams[0].state is StreamState.STREAMING
        cluster.worker_speaks = False
        before = asyncio.get_running_loop().time()
        await state(exchange, StreamState.FAILED)
        assert 2.5 < asyncio.get_running_loop().time() - before < 4

    played(play)


def test_a_writer_that_dies_while_its_placed_is_on_the_way_is_lost_at_once() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        exchange = submit(app)
        asked = await cluster.submits.get()
        before = asyncio.get_running_loop().time()
        cluster.kill_worker()
        cluster.place(asked)
        await state(exchange, StreamState.FAILED)
        assert asyncio.get_running_loop().time() - before < 0.1

    played(play)


def test_a_writer_that_we_never_reach_is_lost_by_its_silence() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        exchange = submit(app)
        asked = await cluster.submits.get()
        nobody = replace(cluster.worker.ref, name=ProcessName("decode-7"), address="mem://none")
        cluster.from_router(Placed(asked.key, nobody))
        await state(exchange, StreamState.FAILED)

    played(play)


def test_a_writer_whose_placed_was_lost_with_the_router_is_found_by_its_pulse() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        exchange = submit(app)
        asked = await cluster.submits.get()
        cluster.from_worker(row(asked.key, [65]))
        await state(exchange, StreamState.STREAMING)
        cluster.kill_router()
        await asyncio.sleep(1)
        cluster.kill_worker()
        await state(exchange, StreamState.FAILED)

    played(play)


def test_a_router_that_says_nothing_for_three_seconds_is_lost_until_it_speaks() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        waiting = submit(app)
        cluster.router_speaks = False
        await state(waiting, StreamState.FAILED)
        assert not app.desk.ready
        cluster.router_speaks = True
        await until(lambda: app.desk.ready)

    played(play)


def test_a_restarted_router_is_found_and_serves_again() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        cluster.kill_router()
        await until(lambda: not app.desk.ready)
        cluster.router = cluster.new_router(2)
        await until(lambda: app.desk.ready)
        assert len(cluster.router.kept(Hello)) == 1

    played(play)


def test_another_models_tokenizer_is_not_served() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        card = replace(CARD, tokenizer_digest="theirs")
        cluster.show(replace(cluster.view, card=card))
        await until(lambda: not app.desk.ready)
        refusal = app.desk.refusal()
        assert refusal is not None
        assert "tokenizer" in refusal.message

    played(play)


def test_messages_for_other_roles_are_counted_and_ignored() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        _, asked = await started(app, cluster)
        cluster.from_worker(Accepted(asked.key))
        # Only the router places, and only it knows the cluster.
        cluster.from_worker(Placed(asked.key, cluster.worker.ref))
        cluster.from_worker(replace(cluster.view, decode=0))
        await asyncio.sleep(0.1)
        registry = app.desk.metrics.registry
        for kind in ("Accepted", "Placed", "ClusterView"):
            name = "twinfleet_gateway_messages_unexpected_total"
            assert registry.get_sample_value(name, {"kind": kind}) == 1
        assert app.desk.ready

    played(play)


def test_a_pulse_in_anothers_name_keeps_nobody_alive() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        exchange, _ = await started(app, cluster)
        cluster.worker_speaks = False
        liar = Peer(cluster.network, "decode-9", Role.DECODE)
        link = liar.port.connect("mem://gateway-0")
        for _ in range(20):
            link.send(Pulse(cluster.worker.ref, 1))
            await asyncio.sleep(0.25)
        assert exchange.streams[0].state is StreamState.FAILED

    played(play)


def test_drain_waits_for_streams_refuses_new_ones() -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        _, asked = await started(app, cluster)
        draining = asyncio.create_task(app.drain())
        await asyncio.sleep(1)
        assert not draining.done()
        assert not app.desk.ready
        assert app.desk.refusal() is not None
        cluster.from_worker(row(asked.key, [66], start=1, finish=FinishReason.STOP))
        cluster.finish(asked)
        await asyncio.wait_for(draining, 2)

    played(play)


async def test_the_whole_service_on_real_sockets(tmp_path: Path) -> None:
    """Built from settings, as the process is: ZeroMQ, heartbeat, HTTP, drain, stop."""
    router = ZmqPort(ProcessId(ProcessName("router-0"), Incarnation(3)), f"ipc://{tmp_path}/r")
    heard: list[Message] = []

    class Router:
        def on_message(self, link: Link, message: Message) -> None:
            heard.append(message)
            match message:
                case Hello():
                    link.send(ClusterView(CARD, prefill=0, decode=1))
                case Submit():
                    link.send(Failed(message.key, ErrorCode.OVERLOADED, "full"))
                case _:
                    pass

        def on_up(self, link: Link) -> None:
            raise AssertionError("a router does not dial gateways")

        on_down = on_up

    router.start(Router())
    settings = GatewaySettings(
        name="gateway-0",
        run_dir=tmp_path,
        bind_address=f"ipc://{tmp_path}/g",
        router_address=f"ipc://{tmp_path}/r",
        engine="mock",
        http_port=0,
    )
    service = build(settings, ProcessId(ProcessName("gateway-0"), Incarnation(4)))
    await service.start()
    try:
        await until(lambda: {Hello, Pulse, Submit} <= {type(message) for message in heard})
        assert service.status()["model"] == "mock"
        assert not service.ready()
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"http://127.0.0.1:{service.http_port}/health") as response,
        ):
            assert response.status == 503
            assert (await response.json())["reason"] == "no request has gone through yet"
        async with asyncio.timeout(5):
            await service.drain()
    finally:
        await service.stop()
        router.close()


def test_an_address_that_cannot_be_dialled_costs_the_stream_not_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(app: GatewayApp, cluster: FakeCluster) -> None:
        def refuse(ref: PeerRef, now: float) -> bool:
            raise ProtocolError(f"cannot dial {ref.address}")

        monkeypatch.setattr(app._writers, "watch", refuse)
        submit(app)
        asked = await cluster.submits.get()
        cluster.place(asked)
        await asyncio.sleep(1)
        monkeypatch.undo()
        # The router's link outlives its mistake: the next request is served.
        _, again = await started(app, cluster)
        assert again.key != asked.key

    played(play)
