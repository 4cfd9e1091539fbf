"""What is stored and removed is counted, and told to the router if it is there."""

from common.domain.peer import PeerRef, Role
from common.runtime.membership import RouterLink
from common.wire.memory_port import MemoryNetwork
from common.wire.messages.cluster import Hello
from common.wire.messages.events import BlocksRemoved, BlocksStored
from common.wire.port import Link
from services.kvstore.announcer import Announcer
from services.kvstore.directory import BlockSpec
from tests.support.blocks import LAYOUT, ROOT, Chain
from tests.support.sim.loop import on_a_warped_clock
from tests.support.store_world import STORE, FakeRouter, settle

CHAIN = Chain(1, 1)
BLOCK = BlockSpec(CHAIN.names[0], ROOT, tuple(CHAIN.units), LAYOUT)


class Store:
    """A port that passes connections on to its router link, and nothing else."""

    def __init__(self, network: MemoryNetwork) -> None:
        self.port = network.port(STORE, "mem://kvstore")
        me = PeerRef(STORE.name, STORE.incarnation, Role.KVSTORE, "mem://kvstore")
        self.router = RouterLink(self.port, "mem://router", lambda: Hello(me))
        self.announcer = Announcer(self.router)
        self.port.start(self)
        self.router.start()

    def on_message(self, link: Link, message: object) -> None: ...

    def on_up(self, link: Link) -> None:
        self.router.on_up(link)

    def on_down(self, link: Link) -> None:
        self.router.on_down(link)


@on_a_warped_clock
async def test_changes_are_counted_and_told() -> None:
    network = MemoryNetwork()
    router, store = FakeRouter(network), Store(network)
    await settle()
    store.announcer.stored([BLOCK])
    store.announcer.removed(BLOCK.units)
    await settle()
    assert [event.number for event in router.of(BlocksStored)] == [1]
    assert [event.number for event in router.of(BlocksRemoved)] == [2]
    counts = store.announcer.counts
    assert (counts.blocks_stored, counts.bytes_stored) == (1, LAYOUT.block_bytes)
    assert counts.units_removed == 2


@on_a_warped_clock
async def test_what_nobody_hears_still_has_its_number() -> None:
    network = MemoryNetwork()
    store = Store(network)
    store.announcer.stored([BLOCK])
    router = FakeRouter(network)
    await settle()
    store.announcer.removed(BLOCK.units)
    await settle()
    assert router.of(BlocksStored) == []
    assert [event.number for event in router.of(BlocksRemoved)] == [2]
