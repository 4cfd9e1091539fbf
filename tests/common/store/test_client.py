"""The worker's side against a scripted store: everything ends, whatever the store does."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from common.domain.block import Descriptor
from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.domain.peer import PeerRef, Role
from common.store import client as client_module
from common.store.arena import Arena
from common.store.client import StoreClient
from common.store.memory import MemoryArenas
from common.wire.columns import pack_hashes, unpack_hashes
from common.wire.descriptors import pack_descriptors, unpack_descriptors
from common.wire.memory_port import MemoryNetwork
from common.wire.messages import Message
from common.wire.messages.cluster import Hello
from common.wire.messages.store import Found, LeaseDone, Lookup, Offer, Taken
from common.wire.port import Link
from tests.support.blocks import LAYOUT, ROOT, Chain
from tests.support.sim.loop import on_a_warped_clock
from tests.support.store_world import settle

WORKER = ProcessId(ProcessName("decode-0"), Incarnation(3))
STORE = ProcessId(ProcessName("kvstore-0"), Incarnation(5))
CHAIN = Chain(1, 3)


class ScriptedStore:
    """Answers each message by what the test put into `answer`."""

    def __init__(self, network: MemoryNetwork, arenas: MemoryArenas, me: ProcessId = STORE) -> None:
        self.arena = Arena.create("store", 8, LAYOUT.block_bytes)
        self.blocks = CHAIN.write(self.arena)
        ref = arenas.publish(self.arena, me).ref
        self.port = network.port(me, f"mem://{me}")
        self.peer = PeerRef(me.name, me.incarnation, Role.KVSTORE, self.port.address, ref)
        self.heard: list[Message] = []
        self.answer: Callable[[Message], Message | None] = lambda message: None
        self.link: Link | None = None
        self.port.start(self)

    def on_message(self, link: Link, message: Message) -> None:
        self.link = link
        self.heard.append(message)
        answer = self.answer(message)
        if answer is not None:
            link.send(answer)

    def on_up(self, link: Link) -> None: ...

    def on_down(self, link: Link) -> None: ...

    def finds(self, blocks: int, lease: int = 9) -> None:
        def answer(message: Message) -> Message | None:
            if isinstance(message, Lookup):
                return Found(message.lookup, lease, *pack_descriptors(self.blocks[:blocks]))
            return None

        self.answer = answer

    def of(self, kind: type[Message]) -> list[Message]:
        return [message for message in self.heard if isinstance(message, kind)]


class Worker:
    def __init__(self, network: MemoryNetwork, arenas: MemoryArenas) -> None:
        self.port = network.port(WORKER, "mem://decode-0")
        arena = Arena.create("worker", 8, LAYOUT.block_bytes)
        ref = arenas.publish(arena, WORKER).ref
        self.me = PeerRef(WORKER.name, WORKER.incarnation, Role.DECODE, self.port.address, ref)
        self.transfer = arenas.transfer()
        self.store = StoreClient(self.port, self.transfer, lambda: Hello(self.me), LAYOUT)
        self.ignored: list[Message] = []
        self.port.start(self)

    def on_message(self, link: Link, message: Message) -> None:
        if not self.store.on_message(link, message):
            self.ignored.append(message)

    def on_up(self, link: Link) -> None: ...

    def on_down(self, link: Link) -> None:
        self.store.on_down(link)


@pytest.fixture
def network() -> MemoryNetwork:
    return MemoryNetwork()


@pytest.fixture
def arenas() -> MemoryArenas:
    return MemoryArenas()


@pytest.fixture
def store(network: MemoryNetwork, arenas: MemoryArenas) -> Iterator[ScriptedStore]:
    store = ScriptedStore(network, arenas)
    yield store
    store.port.close()


@pytest.fixture
def worker(network: MemoryNetwork, arenas: MemoryArenas) -> Iterator[Worker]:
    worker = Worker(network, arenas)
    yield worker
    worker.store.close()
    worker.port.close()


def room(blocks: int) -> list[memoryview]:
    return [memoryview(bytearray(LAYOUT.block_bytes)) for _ in range(blocks)]


def offer(worker: Worker, done: Callable[[], None]) -> None:
    worker.store.offer(ROOT, CHAIN.units, [Descriptor(i, 1, 2**32 - 1) for i in range(3)], done)


@on_a_warped_clock
async def test_a_worker_introduces_itself_before_it_says_anything_else(
    worker: Worker, store: ScriptedStore
) -> None:
    worker.store.store_changed(store.peer)
    offer(worker, lambda: None)
    await settle()
    assert [type(message) for message in store.heard] == [Hello, Offer]
    assert store.heard[0] == Hello(worker.me)
    offered = store.heard[1]
    assert isinstance(offered, Offer)
    assert unpack_hashes(offered.units) == CHAIN.units
    assert offered.parent == ROOT
    blocks = unpack_descriptors(offered.slots, offered.generations, offered.crcs)
    assert blocks == [Descriptor(i, 1, 2**32 - 1) for i in range(3)]


@on_a_warped_clock
async def test_an_offer_is_done_once_when_taken(worker: Worker, store: ScriptedStore) -> None:
    done: list[int] = []
    worker.store.store_changed(store.peer)
    offer(worker, lambda: done.append(1))
    offer(worker, lambda: done.append(2))
    await settle()
    assert done == []
    number = store.of(Offer)[1].offer
    assert store.link is not None
    for _ in range(2):
        store.link.send(Taken(number))
    await settle()
    assert done == [2]
    assert worker.store.open_offers == 1


@on_a_warped_clock
async def test_an_offer_lapses_when_the_store_says_nothing(
    worker: Worker, store: ScriptedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "OFFER_LEASE_S", 0.05)
    clock = asyncio.get_running_loop().time
    done: list[float] = []
    worker.store.store_changed(store.peer)
    started = clock()
    offer(worker, lambda: done.append(clock()))
    await asyncio.sleep(0.06)
    await settle()
    assert len(done) == 1
    assert done[0] - started >= 0.05
    store.link.send(Taken(1))
    await settle()
    assert len(done) == 1


@on_a_warped_clock
async def test_a_dying_store_ends_offers_and_lookups_at_once(
    worker: Worker, store: ScriptedStore
) -> None:
    done: list[int] = []
    worker.store.store_changed(store.peer)
    offer(worker, lambda: done.append(1))
    lookup = asyncio.create_task(worker.store.lookup(CHAIN.names))
    await settle()
    store.port.close()
    assert done == [1]
    assert not worker.store.available
    assert (await lookup).blocks == 0


@on_a_warped_clock
async def test_without_a_store_offers_are_over_and_nothing_is_found(worker: Worker) -> None:
    done: list[int] = []
    offer(worker, lambda: done.append(1))
    assert done == []
    await asyncio.sleep(0)
    assert done == [1]
    assert (await worker.store.lookup(CHAIN.names)).blocks == 0


@on_a_warped_clock
async def test_another_store_ends_what_was_open_with_the_first(
    worker: Worker, store: ScriptedStore, network: MemoryNetwork, arenas: MemoryArenas
) -> None:
    done: list[int] = []
    second = ScriptedStore(network, arenas, ProcessId(STORE.name, Incarnation(6)))
    worker.store.store_changed(store.peer)
    offer(worker, lambda: done.append(1))
    worker.store.store_changed(second.peer)
    assert done == [1]
    offer(worker, lambda: done.append(2))
    await settle()
    assert [type(message) for message in second.heard] == [Hello, Offer]
    worker.store.store_changed(None)
    assert done == [1, 2]
    second.port.close()


@on_a_warped_clock
async def test_hearing_of_the_same_store_again_changes_nothing(
    worker: Worker, store: ScriptedStore
) -> None:
    done: list[int] = []
    worker.store.store_changed(store.peer)
    offer(worker, lambda: done.append(1))
    worker.store.store_changed(store.peer)
    await settle()
    assert done == []
    assert len(store.of(Hello)) == 1


@on_a_warped_clock
async def test_found_blocks_are_read_verified_and_the_lease_is_ended(
    worker: Worker, store: ScriptedStore
) -> None:
    store.finds(2)
    worker.store.store_changed(store.peer)
    lease = await worker.store.lookup(CHAIN.names)
    assert lease.blocks == 2
    assert store.of(LeaseDone) == []
    targets = room(3)
    assert await lease.read(targets) == 2
    assert [bytes(target) for target in targets[:2]] == [CHAIN.content(0), CHAIN.content(1)]
    lease.release()
    await settle()
    assert store.of(LeaseDone) == [LeaseDone(9)]


@on_a_warped_clock
async def test_reading_fewer_blocks_than_found_ends_the_lease_too(
    worker: Worker, store: ScriptedStore
) -> None:
    store.finds(3)
    worker.store.store_changed(store.peer)
    lease = await worker.store.lookup(CHAIN.names)
    assert await lease.read(room(1)) == 1
    await settle()
    assert store.of(LeaseDone) == [LeaseDone(9)]


@on_a_warped_clock
async def test_only_blocks_before_the_first_bad_one_count(
    worker: Worker, store: ScriptedStore
) -> None:
    store.finds(3)
    store.arena.view(1)[5] ^= 1
    worker.store.store_changed(store.peer)
    lease = await worker.store.lookup(CHAIN.names)
    assert await lease.read(room(3)) == 1
    await settle()
    assert store.of(LeaseDone) == [LeaseDone(9)]


@on_a_warped_clock
async def test_a_lease_that_is_not_wanted_is_given_back_once(
    worker: Worker, store: ScriptedStore
) -> None:
    store.finds(3)
    worker.store.store_changed(store.peer)
    lease = await worker.store.lookup(CHAIN.names)
    lease.release()
    lease.release()
    await settle()
    assert store.of(LeaseDone) == [LeaseDone(9)]


@on_a_warped_clock
async def test_an_answer_that_comes_too_late_is_given_back(
    worker: Worker, store: ScriptedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "LOOKUP_TIMEOUT_S", 0.02)
    worker.store.store_changed(store.peer)
    assert (await worker.store.lookup(CHAIN.names)).blocks == 0
    (lookup,) = store.of(Lookup)
    store.link.send(Found(lookup.lookup, 4, *pack_descriptors(store.blocks)))
    await settle()
    assert store.of(LeaseDone) == [LeaseDone(4)]


@pytest.mark.parametrize(
    "columns",
    [
        (b"abc", b"", b""),
        pack_descriptors([Descriptor(0, 1, 2)] * 4),
        (*pack_descriptors([Descriptor(0, 1, 2)])[:2], b""),
    ],
    ids=["broken", "more than asked for", "unequal"],
)
@on_a_warped_clock
async def test_an_answer_that_makes_no_sense_costs_the_store_its_link(
    worker: Worker, store: ScriptedStore, columns: tuple[bytes, bytes, bytes]
) -> None:
    store.answer = lambda message: (
        Found(message.lookup, 4, *columns) if isinstance(message, Lookup) else None
    )
    worker.store.store_changed(store.peer)
    assert (await worker.store.lookup(CHAIN.names)).blocks == 0
    assert not worker.store.available
    worker.store.store_changed(store.peer)
    assert worker.store.available


@on_a_warped_clock
async def test_a_store_without_an_arena_is_asked_only_once_it_has_one(
    worker: Worker, store: ScriptedStore
) -> None:
    store.finds(1)
    bare = PeerRef(STORE.name, STORE.incarnation, Role.KVSTORE, store.port.address)
    worker.store.store_changed(bare)
    assert (await worker.store.lookup(CHAIN.names)).blocks == 0
    await settle()
    assert store.of(Lookup) == []
    store.link.send(Hello(store.peer))
    await settle()
    assert (await worker.store.lookup(CHAIN.names)).blocks == 1


@on_a_warped_clock
async def test_messages_of_other_links_and_kinds_are_not_the_stores(
    worker: Worker, store: ScriptedStore
) -> None:
    worker.store.store_changed(store.peer)
    await settle()
    store.link.send(LeaseDone(1))
    await settle()
    assert worker.ignored == [LeaseDone(1)]
    assert not worker.store.on_message(worker.port.connect("mem://other"), Taken(1))


@on_a_warped_clock
async def test_lookups_ask_for_names_in_order(worker: Worker, store: ScriptedStore) -> None:
    store.finds(1)
    worker.store.store_changed(store.peer)
    await worker.store.lookup(CHAIN.names)
    (lookup,) = store.of(Lookup)
    assert lookup.names == pack_hashes(CHAIN.names)
    assert lookup.layout == LAYOUT
