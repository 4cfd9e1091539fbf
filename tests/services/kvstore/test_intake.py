"""The queue of offers: what is dropped unread, and what one offer is."""

import asyncio
from dataclasses import replace

import pytest

from common.domain.errors import ProtocolError
from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.runtime.membership import RouterLink
from common.store.arena import Arena
from common.store.memory import MemoryArenas
from common.wire.columns import pack_hashes
from common.wire.descriptors import pack_descriptors
from common.wire.memory_port import MemoryNetwork
from common.wire.messages.cluster import Hello
from common.wire.messages.store import Offer
from services.kvstore import intake as intake_module
from services.kvstore.announcer import Announcer
from services.kvstore.intake import Intake, WaitingOffer, offered_blocks
from services.kvstore.shelf import Shelf, ShelfRules, make_shelf
from tests.support.blocks import LAYOUT, ROOT, Chain

WORKER = ProcessId(ProcessName("decode-0"), Incarnation(3))
STORE = ProcessId(ProcessName("kvstore-0"), Incarnation(5))


class Bench:
    """An intake on a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.arenas = MemoryArenas()
        self.transfer = self.arenas.transfer()
        port = MemoryNetwork().port(STORE, "mem://kvstore")
        self.announcer = Announcer(RouterLink(port, "mem://router", self.no_hello))
        self.intake = Intake(self.transfer, self.shelf_for, self.announcer, lambda: self.now)
        self.shelf: Shelf | None = None
        self.arena = Arena.create("worker", 8, LAYOUT.block_bytes)
        self.ref = self.arenas.publish(self.arena, WORKER).ref
        self.finished: list[int] = []

    def no_hello(self) -> Hello:
        raise AssertionError("the link is never up here")

    async def shelf_for(self, block_bytes: int) -> Shelf | None:
        if self.shelf is None:
            rules = ShelfRules("", 8 * LAYOUT.block_bytes)
            self.shelf = await make_shelf(
                rules, block_bytes, self.transfer, lambda arena: self.arenas.publish(arena, STORE)
            )
        return self.shelf

    def offer(self, chain: Chain) -> Offer:
        columns = pack_descriptors(chain.write(self.arena))
        return Offer(1, LAYOUT, ROOT, pack_hashes(chain.units), *columns)

    def put(self, chain: Chain, number: int = 0) -> bool:
        blocks = offered_blocks(self.offer(chain))

        def finished() -> None:
            self.finished.append(number)

        lapses_at = self.now + 10.0
        return self.intake.put(WaitingOffer(self.ref, LAYOUT, blocks, lapses_at, finished))

    async def work(self) -> None:
        task = asyncio.create_task(self.intake.run())
        await self.intake.idle()
        task.cancel()


@pytest.fixture
async def bench() -> Bench:
    return Bench()


def test_blocks_are_cut_from_the_columns_in_chain_order() -> None:
    chain = Chain(1, 3)
    blocks = offered_blocks(
        Offer(
            1, LAYOUT, ROOT, pack_hashes(chain.units), *(b"\1\0\0\0\2\0\0\0\3\0\0\0" for _ in "abc")
        )
    )
    assert [block.spec.name for block in blocks] == chain.names
    assert [block.spec.parent for block in blocks] == [ROOT, *chain.names[:2]]
    assert [unit for block in blocks for unit in block.spec.units] == chain.units
    assert [block.source.slot for block in blocks] == [1, 2, 3]


def test_columns_that_disagree_are_a_protocol_error() -> None:
    units = pack_hashes(Chain(1, 1).units)
    good = Offer(1, LAYOUT, ROOT, units, b"\0" * 4, b"\0" * 4, b"\0" * 4)
    assert len(offered_blocks(good)) == 1
    for bad in (
        replace(good, units=units[:32]),
        replace(good, units=units + units),
        replace(good, slots=b"\0" * 8),
        replace(good, parent=ROOT[:31]),
        replace(good, layout=replace(LAYOUT, block_tokens=16)),
        replace(good, layout=replace(LAYOUT, block_tokens=-32)),
    ):
        with pytest.raises(ProtocolError):
            offered_blocks(bad)


async def test_offers_are_worked_off_in_order_and_each_is_finished(bench: Bench) -> None:
    assert bench.put(Chain(1, 2), 1)
    assert bench.put(Chain(2, 2), 2)
    assert bench.finished == []
    await bench.work()
    assert bench.finished == [1, 2]
    assert bench.announcer.counts.blocks_stored == 2, "the second overwrote the first's slots"
    assert bench.announcer.counts.blocks_unverified == 2


async def test_an_offer_that_waited_past_its_lease_is_dropped_unread(bench: Bench) -> None:
    bench.put(Chain(1, 2))
    bench.now = 10.0
    await bench.work()
    assert bench.finished == [0]
    assert bench.announcer.counts.blocks_lapsed == 2
    assert bench.announcer.counts.blocks_stored == 0


async def test_a_full_queue_turns_offers_away(bench: Bench) -> None:
    taken = [bench.put(Chain(1, 1)) for _ in range(intake_module.MAX_WAITING + 1)]
    assert taken == [True] * intake_module.MAX_WAITING + [False]
    await bench.work()
    assert len(bench.finished) == intake_module.MAX_WAITING


async def test_a_chain_is_not_followed_past_a_block_that_failed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "BATCH_BYTES", 2 * LAYOUT.block_bytes)
    bench.put(Chain(1, 6))
    bench.arena.bump(1)
    await bench.work()
    counts = bench.announcer.counts
    assert (counts.blocks_stored, counts.blocks_unverified, counts.blocks_skipped) == (1, 1, 4)
    assert bench.shelf is not None
    bench.shelf.directory.check_invariants()
