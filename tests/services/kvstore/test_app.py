"""The kvstore's place in the cluster: joining, inbox, events, end."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from common.domain.block import Descriptor
from common.domain.ids import Incarnation, ProcessName
from common.domain.peer import Medium, PeerRef, Role
from common.wire.columns import pack_hashes, unpack_hashes
from common.wire.messages import Message
from common.wire.messages.cluster import Goodbye, Hello, StoreView
from common.wire.messages.events import BlocksStored, Snapshot, SnapshotWanted
from common.wire.messages.store import Lookup, Offer, Taken
from services.kvstore.app import KvStoreApp
from tests.support.blocks import LAYOUT, ROOT, Chain
from tests.support.sim.loop import on_a_warped_clock
from tests.support.store_world import STORE, FakeRouter, Worker, World, settle, with_app


@on_a_warped_clock
async def test_it_is_ready_when_the_router_has_welcomed_it(world: World) -> None:
    app = world.app()
    assert not app.ready()
    await app.start()
    assert not app.ready()
    await settle()
    assert app.ready()
    (hello,) = world.router.of(Hello)
    assert hello.me.role is Role.KVSTORE
    assert world.heartbeats[0].running
    assert world.heartbeats[0].listeners == {"mem://router"}
    assert world.heartbeats[0].beat().me.id == STORE
    world.router.port.close()
    assert not app.ready()
    await app.stop()
    assert not world.heartbeats[0].running


@on_a_warped_clock
async def test_refused_by_the_router_it_is_not_ready(world: World) -> None:
    world.router.accepts = False
    app = world.app()
    await app.start()
    await settle()
    assert not app.ready()
    await app.stop()


@with_app
async def test_what_one_worker_offers_another_reads(world: World, app: KvStoreApp) -> None:
    giver, reader = await world.worker("prefill-0"), await world.worker("decode-0")
    chain = Chain(1, 3)
    assert await reader.read(chain) == 0
    await giver.offer(chain)
    giver.port.close()
    assert await reader.read(chain) == 3
    assert await reader.read(Chain(1, 5)) == 3
    assert app.status()["slots"] == {"total": 6, "free": 3, "filling": 0, "held": 3, "leased": 0}
    assert app.status()["bytes_held"] == 3 * LAYOUT.block_bytes
    assert (app.status()["hits"], app.status()["misses"]) == (6, 2)


@with_app
async def test_the_router_hears_of_blocks_once_and_only_when_they_can_be_found(
    world: World, app: KvStoreApp
) -> None:
    worker = await world.worker()
    await worker.offer(Chain(1, 2))
    await worker.offer(Chain(1, 4))
    stored = world.router.of(BlocksStored)
    units = Chain(1, 4).units
    assert stored == [
        BlocksStored(1, Medium.HOST, ROOT, pack_hashes(units[:4])),
        BlocksStored(2, Medium.HOST, units[3], pack_hashes(units[4:])),
    ]
    assert app.status()["blocks_known"] == 2


def wrong_crc(blocks: list[Descriptor]) -> None:
    blocks[1] = replace(blocks[1], crc=blocks[1].crc ^ 1)


def reused(blocks: list[Descriptor]) -> None:
    blocks[1] = replace(blocks[1], generation=blocks[1].generation + 1)


def beyond(blocks: list[Descriptor]) -> None:
    blocks[1] = replace(blocks[1], slot=1000)


@pytest.mark.parametrize("spoil", [wrong_crc, reused, beyond])
@with_app
async def test_a_block_that_fails_its_check_is_never_shown(
    world: World, app: KvStoreApp, spoil: Callable[[list[Descriptor]], None]
) -> None:
    worker, chain = await world.worker(), Chain(1, 3)
    await worker.offer(chain, spoil)
    assert await worker.read(chain) == 1
    told = [unit for event in world.router.of(BlocksStored) for unit in unpack_hashes(event.units)]
    assert told == chain.units[:2] + chain.units[4:]
    assert app.status()["blocks_unverified"] == 1
    await worker.offer(chain)
    assert await worker.read(chain) == 3


@on_a_warped_clock
async def test_the_arena_is_made_at_the_start_when_its_slots_are_set(world: World) -> None:
    app = world.app(slot_bytes=5000)
    await app.start()
    await settle()
    (hello,) = world.router.of(Hello)
    assert (hello.me.arena.slot_bytes, hello.me.arena.slots) == (8192, 3)
    worker = await world.worker()
    await worker.offer(Chain(1, 5))
    assert await worker.read(Chain(1, 5)) == 3
    await app.stop()


@with_app
async def test_a_snapshot_says_what_is_held_as_of_which_event(
    world: World, app: KvStoreApp
) -> None:
    assert world.router.link is not None
    world.router.link.send(SnapshotWanted())
    await settle()
    worker = await world.worker()
    await worker.offer(Chain(1, 2))
    link = world.router.port.connect("mem://kvstore", STORE)
    link.send(SnapshotWanted())
    await settle()
    empty, full = world.router.of(Snapshot)
    assert (empty.number, empty.units, empty.last) == (0, b"", True)
    units = Chain(1, 2).units
    pairs = dict(zip(unpack_hashes(full.units), unpack_hashes(full.parents), strict=True))
    assert full.number == 1
    assert pairs == dict(zip(units, [ROOT, *units], strict=False))


@with_app
async def test_events_go_on_counting_while_the_router_is_away(
    world: World, app: KvStoreApp
) -> None:
    worker = await world.worker()
    await worker.offer(Chain(1, 1))
    world.router.port.close()
    await worker.offer(Chain(2, 1))
    world.router = FakeRouter(world.network)
    await settle()
    assert app.ready()
    await worker.offer(Chain(3, 1))
    assert [event.number for event in world.router.of(BlocksStored)] == [3]


@with_app
async def test_an_offer_of_a_stranger_is_over_at_once(world: World, app: KvStoreApp) -> None:
    worker = Worker(world)
    link = worker.port.connect("mem://kvstore", STORE)
    units = pack_hashes(Chain(1, 1).units)
    link.send(Offer(7, LAYOUT, ROOT, units, b"\0\0\0\0", b"\1\0\0\0", b"\0\0\0\0"))
    await settle()
    assert worker.heard == [Taken(7)]
    assert app.status()["offers_turned_away"] == 1


@pytest.mark.parametrize(
    "message",
    [
        Offer(1, LAYOUT, ROOT, b"short", b"", b"", b""),
        Offer(1, LAYOUT, ROOT, pack_hashes(Chain(1, 1).units), b"", b"", b""),
        Offer(1, LAYOUT, b"", b"", b"", b"", b""),
        Offer(1, replace(LAYOUT, block_tokens=24), ROOT, b"", b"", b"", b""),
        Offer(1, replace(LAYOUT, block_tokens=0), ROOT, b"", b"", b"", b""),
        Lookup(1, LAYOUT, b"short"),
        Hello(PeerRef(ProcessName("somebody"), Incarnation(1), Role.DECODE, "mem://x")),
    ],
)
@with_app
async def test_a_message_that_makes_no_sense_costs_its_sender_alone(
    world: World, app: KvStoreApp, message: Message
) -> None:
    worker = await world.worker()
    worker.port.connect("mem://kvstore", STORE).send(message)
    await settle()
    assert app.status()["peers_dropped"] == 1
    other = await world.worker("decode-1")
    await other.offer(Chain(1, 2))
    assert await other.read(Chain(1, 2)) == 2


@with_app
async def test_what_is_not_for_a_store_is_counted_and_ignored(
    world: World, app: KvStoreApp
) -> None:
    worker = await world.worker()
    worker.port.connect("mem://kvstore", STORE).send(StoreView(None))
    await settle()
    assert app.status()["messages_unexpected"] == 1


@with_app
async def test_drain_finishes_offers_waits_for_readers_and_takes_nothing_new(
    world: World, app: KvStoreApp
) -> None:
    worker = await world.worker()
    await worker.offer(Chain(1, 2))
    lease = await worker.store.lookup(Chain(1, 2).names)
    drain = asyncio.create_task(app.drain())
    await worker.offer(Chain(2, 2))
    assert not app.ready()
    assert not drain.done()
    assert len(world.router.of(Goodbye)) == 1
    assert app.status()["offers_turned_away"] == 1
    lease.release()
    await asyncio.wait_for(drain, 3)


@on_a_warped_clock
async def test_a_store_that_stops_takes_its_arena_along(world: World) -> None:
    app = world.app()
    await app.start()
    worker = await world.worker()
    await worker.offer(Chain(1, 2))
    lease = await worker.store.lookup(Chain(1, 2).names)
    await app.stop()
    assert not worker.store.available
    targets = [memoryview(bytearray(LAYOUT.block_bytes)) for _ in range(2)]
    assert await lease.read(targets) == 0
