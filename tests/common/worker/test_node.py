"""A worker as its peers see it: Hello, Welcome, pulse, snapshots, and a clean end."""

from common.domain.ledger import Ledger
from common.domain.peer import Role
from common.engine.job import Done
from common.wire.messages.cluster import Goodbye, Hello, Pulse, Welcome
from common.wire.messages.events import Snapshot, SnapshotWanted
from tests.support.engines import greedy, key, prompt_of
from tests.support.sim.loop import on_a_warped_clock
from tests.support.workers import FakeRouter, Stage


@on_a_warped_clock
async def test_hello_says_who_where_what_and_how_much() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0", slots=20)
        (hello,) = stage.router.all(Hello)
        assert (hello.me.name, hello.me.role) == ("decode-0", Role.DECODE)
        assert hello.me.address == decode.node.port.address
        assert hello.me.arena is not None
        assert (hello.me.arena.holder, hello.me.arena.slots) == ("decode-0", 20)
        assert hello.load.blocks_total == 20
        assert hello.card is not None
        assert hello.card.context_tokens == 19 * 32, "one block is never anybody's alone"


@on_a_warped_clock
async def test_it_is_ready_when_it_is_welcome_and_says_why_it_is_not() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        assert decode.app.ready()
        stage.router.back["decode-0"].send(Welcome(accepted=False, reason="another model"))
        await stage.settle()
        assert not decode.app.ready()
        assert decode.app.status()["refused"] == "another model"


@on_a_warped_clock
async def test_a_new_router_is_greeted_anew_and_told_what_is_cached() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        await stage.finish(stage.assign(decode, stage.submit("a", prompt_of(100))))
        await stage.assert_idle()
        stage.router.die()
        assert not decode.app.ready()
        second = FakeRouter(stage.network, life=2)
        second.port.close()
        successor = stage.network.port(second.ref.id, stage.router.ref.address)
        successor.start(second)
        second.port = successor
        await stage.settle()
        assert decode.app.ready()
        (hello,) = second.all(Hello)
        assert hello.load.blocks_cached == 3
        second.back["decode-0"].send(SnapshotWanted())
        await stage.until(lambda: bool(second.all(Snapshot)))
        (snapshot,) = second.all(Snapshot)
        assert len(snapshot.units) == len(snapshot.parents) == 6 * 32


@on_a_warped_clock
async def test_what_streams_goes_on_without_a_router() -> None:
    async with Stage() as stage:
        prefill, decode = await stage.split()
        wanted = stage.assign(decode, stage.submit("a", prompt_of(100), greedy(50)), prefill)
        await stage.until(lambda: (wanted, 0) in stage.gateway.tokens)
        stage.router.die()
        await stage.finish(wanted)
        stage.assert_output(wanted, prompt_of(100), greedy(50))
        await stage.assert_idle()


@on_a_warped_clock
async def test_the_pulse_goes_to_the_router_and_to_whom_it_is_sent() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        assert decode.heartbeat.running
        router = stage.router.ref.address
        assert decode.heartbeat.listeners == {router}
        decode.node.pulse_to(["mem://a", "mem://b"])
        assert decode.heartbeat.listeners == {router, "mem://a", "mem://b"}
        decode.node.pulse_to([])
        assert decode.heartbeat.listeners == {router}
        pulse = decode.heartbeat.beat()
        assert isinstance(pulse, Pulse)
        assert pulse.me == decode.ref


@on_a_warped_clock
async def test_events_about_anything_but_the_cache_are_others() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        assert not decode.node.on_cache_event(Done(key("a"), Ledger()))


@on_a_warped_clock
async def test_goodbye_and_stop_in_the_middle_of_work() -> None:
    async with Stage() as stage:
        prefill, decode = await stage.split()
        stage.assign(decode, stage.submit("a", prompt_of(600), greedy(900)), prefill)
        await stage.settle()
        decode.node.say_goodbye()
        await stage.settle()
        assert [goodbye.me for goodbye in stage.router.all(Goodbye)] == [decode.ref]
        del stage.sites["decode-0"]
        await decode.app.stop()
        assert not decode.heartbeat.running
        assert decode.arena.slots == 0
        assert len(decode.node.tasks) == 0
        arena = decode.ref.arena
        assert arena is not None
        assert (arena.holder, arena.epoch) not in stage.arenas._arenas
        assert decode.node.port.address not in stage.network.ports
        await stage.assert_idle(limit_s=12.0)
