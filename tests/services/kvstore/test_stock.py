"""What can be found, what must stay and what goes, seen by workers."""

import asyncio
from dataclasses import replace

import pytest

from common.wire.columns import pack_hashes, unpack_hashes
from common.wire.messages.events import BlocksRemoved, BlocksStored
from common.wire.messages.store import Found, LeaseDone, Offer, Taken
from services.kvstore.app import KvStoreApp
from services.kvstore.leases import LEASE_S
from tests.support.blocks import LAYOUT, ROOT, Chain
from tests.support.store_world import SLOTS, STORE, World, settle, with_app


@with_app
async def test_an_older_chain_makes_room_from_its_end(world: World, app: KvStoreApp) -> None:
    worker = await world.worker()
    old, young = Chain(1, 4), Chain(2, 5)
    await worker.offer(old)
    await worker.offer(young)
    assert await worker.read(young) == 5
    assert await worker.read(old) == 1
    removed = [u for event in world.router.of(BlocksRemoved) for u in unpack_hashes(event.units)]
    assert sorted(removed) == sorted(old.units[2:])
    numbers = [
        event.number
        for event in world.router.heard
        if isinstance(event, BlocksStored | BlocksRemoved)
    ]
    assert numbers == list(range(1, len(numbers) + 1))


@with_app
async def test_a_chain_longer_than_the_arena_is_kept_from_its_start(
    world: World, app: KvStoreApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.kvstore.intake.BATCH_BYTES", 3 * LAYOUT.block_bytes)
    worker, chain = await world.worker(), Chain(1, 8)
    await worker.offer(chain)
    assert await worker.read(chain) == SLOTS
    status = app.status()
    assert (status["blocks_no_room"], status["blocks_skipped"]) == (2, 0)
    assert world.router.of(BlocksRemoved) == []


@with_app
async def test_leased_blocks_outlive_any_offer(world: World, app: KvStoreApp) -> None:
    worker, kept = await world.worker(), Chain(1, 4)
    await worker.offer(kept)
    lease = await worker.store.lookup(kept.names)
    assert lease.blocks == 4
    for seed in range(2, 6):
        await worker.offer(Chain(seed, 4))
    targets = [memoryview(bytearray(LAYOUT.block_bytes)) for _ in range(4)]
    assert await lease.read(targets) == 4
    assert [bytes(target) for target in targets] == [kept.content(i) for i in range(4)]
    await settle()
    assert app.status()["leases"] == 0
    await worker.offer(Chain(6, 6))
    assert await worker.read(kept) == 0


@with_app
async def test_a_lease_lapses_by_itself(world: World, app: KvStoreApp) -> None:
    worker, chain = await world.worker(), Chain(1, 6)
    await worker.offer(chain)
    lease = await worker.store.lookup(chain.names)
    worker.port.close()
    assert app.status()["slots"]["leased"] == 6
    await asyncio.sleep(LEASE_S - 0.6)
    assert app.status()["slots"]["leased"] == 6
    await asyncio.sleep(1.2)
    assert app.status()["slots"]["leased"] == 0
    assert app.status()["leased_blocks_expired"] == 6
    other = await world.worker("decode-1")
    await other.offer(Chain(2, 6))
    targets = [memoryview(bytearray(LAYOUT.block_bytes)) for _ in range(6)]
    assert await lease.read(targets) == 0


@with_app
async def test_a_slot_filled_again_is_another_generation_even_with_equal_bytes(
    world: World, app: KvStoreApp
) -> None:
    worker, chain = await world.worker(), Chain(1, 1)
    await worker.offer(chain)
    await (await worker.store.lookup(chain.names)).read([])
    await settle()
    await app.routes()["POST /flush"]()
    await worker.offer(chain)
    await worker.store.lookup(chain.names)
    first, second = [message for message in worker.heard if isinstance(message, Found)]
    assert (first.slots, first.crcs) == (second.slots, second.crcs)
    assert first.generations != second.generations


@with_app
async def test_a_new_life_of_a_worker_ends_its_old_leases(world: World, app: KvStoreApp) -> None:
    first = await world.worker(incarnation=3)
    await first.offer(Chain(1, 2))
    await first.store.lookup(Chain(1, 2).names)
    other = await world.worker("decode-1")
    await other.store.lookup(Chain(1, 2).names)
    assert len(app.stock.leases) == 2
    await world.worker(incarnation=4)
    assert len(app.stock.leases) == 1
    assert app.status()["workers"] == 2


@with_app
async def test_nobody_ends_anothers_lease(world: World, app: KvStoreApp) -> None:
    worker, thief = await world.worker(), await world.worker("decode-1")
    await worker.offer(Chain(1, 2))
    await worker.store.lookup(Chain(1, 2).names)
    (found,) = [message for message in worker.heard if isinstance(message, Found)]
    thief.port.connect("mem://kvstore", STORE).send(LeaseDone(found.lease))
    await settle()
    assert len(app.stock.leases) == 1


@with_app
async def test_a_layout_that_does_not_fit_is_refused_and_harms_nothing(
    world: World, app: KvStoreApp
) -> None:
    small = await world.worker()
    await small.offer(Chain(1, 2))
    wide = replace(LAYOUT, head_dim=32)
    large = await world.worker("decode-1", layout=wide)
    await large.offer(Chain(2, 1, wide))
    assert app.status()["blocks_unfit"] == 1
    assert await large.read(Chain(2, 1, wide)) == 0
    assert await small.read(Chain(1, 2)) == 2


@pytest.mark.parametrize("head_dim", [0, -16, 2**40])
@with_app
async def test_a_layout_that_no_arena_could_hold_is_refused(
    world: World, app: KvStoreApp, head_dim: int
) -> None:
    worker = await world.worker()
    link = worker.port.connect("mem://kvstore", STORE)
    units = Chain(1, 1).units
    link.send(
        Offer(7, replace(LAYOUT, head_dim=head_dim), ROOT, pack_hashes(units), *[b"\0\0\0\0"] * 3)
    )
    await settle()
    assert Taken(7) in worker.heard
    assert app.stock.shelf is None
    await worker.offer(Chain(1, 2))
    assert await worker.read(Chain(1, 2)) == 2


@with_app
async def test_another_layout_of_a_name_is_not_found(world: World, app: KvStoreApp) -> None:
    worker = await world.worker()
    await worker.offer(Chain(1, 2))
    other = await world.worker("decode-1", layout=replace(LAYOUT, dtype="bfloat16"))
    assert (await other.store.lookup(Chain(1, 2).names)).blocks == 0


@with_app
async def test_flush_makes_a_hit_a_miss(world: World, app: KvStoreApp) -> None:
    flush = app.routes()["POST /flush"]
    assert (await flush())["blocks_removed"] == 0
    worker = await world.worker()
    await worker.offer(Chain(1, 2))
    await worker.offer(Chain(2, 2))
    lease = await worker.store.lookup(Chain(2, 2).names)
    answer = await flush()
    assert answer["blocks_removed"] == 2
    assert answer["slots"]["leased"] == 2
    await settle()
    (removed,) = world.router.of(BlocksRemoved)
    assert sorted(unpack_hashes(removed.units)) == sorted(Chain(1, 2).units)
    assert await worker.read(Chain(1, 2)) == 0
    assert lease.blocks == 2
    assert await worker.read(Chain(2, 2)) == 2
