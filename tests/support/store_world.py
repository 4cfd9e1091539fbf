"""A kvstore between fake workers and a fake router, on the in-memory network."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine

from common.domain.block import Descriptor, LayoutTag
from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.domain.peer import PeerRef, Role
from common.store.arena import Arena
from common.store.client import StoreClient
from common.store.memory import MemoryArenas
from common.wire.memory_port import MemoryNetwork
from common.wire.messages import Message
from common.wire.messages.cluster import Hello, Pulse, Welcome
from common.wire.port import Link
from services.kvstore.app import KvStoreApp
from services.kvstore.shelf import ShelfRules
from tests.support.blocks import LAYOUT, ROOT, Chain
from tests.support.sim.loop import warped

STORE = ProcessId(ProcessName("kvstore-0"), Incarnation(5))
SLOTS = 6


async def settle() -> None:
    """Every message under way has arrived, and every answer to it."""
    await asyncio.sleep(0.01)


class NoHeartbeat:
    def __init__(self, me: ProcessId, beat: Callable[[], Pulse]) -> None:
        self.beat = beat
        self.listeners: frozenset[str] = frozenset()
        self.running = False

    def start(self) -> None:
        self.running = True

    def listen(self, addresses: frozenset[str]) -> None:
        self.listeners = addresses

    def stop(self) -> None:
        self.running = False


class FakeRouter:
    def __init__(self, network: MemoryNetwork) -> None:
        self.port = network.port(ProcessId(ProcessName("router-0"), Incarnation(1)), "mem://router")
        self.heard: list[Message] = []
        self.accepts = True
        self.link: Link | None = None
        self.port.start(self)

    def on_message(self, link: Link, message: Message) -> None:
        self.link = link
        self.heard.append(message)
        if isinstance(message, Hello):
            link.send(Welcome(self.accepts, "" if self.accepts else "no"))

    def on_up(self, link: Link) -> None: ...

    def on_down(self, link: Link) -> None: ...

    def of(self, kind: type[Message]) -> list[Message]:
        return [message for message in self.heard if isinstance(message, kind)]


class Worker:
    """A decode worker reduced to its store client, with slots for eight blocks."""

    def __init__(
        self,
        world: "World",
        name: str = "decode-0",
        incarnation: int = 3,
        layout: LayoutTag = LAYOUT,
    ) -> None:
        me = ProcessId(ProcessName(name), Incarnation(incarnation))
        self.port = world.network.port(me, f"mem://{name}/{incarnation}")
        self.arena = Arena.create("worker", 8, 8192)
        ref = world.arenas.publish(self.arena, me).ref
        self.me = PeerRef(me.name, me.incarnation, Role.DECODE, self.port.address, ref)
        self.heard: list[Message] = []
        self.link: Link | None = None
        self.port.start(self)
        transfer = world.arenas.transfer()
        self.store = StoreClient(self.port, transfer, lambda: Hello(self.me), layout)

    def on_message(self, link: Link, message: Message) -> None:
        self.heard.append(message)
        self.store.on_message(link, message)

    def on_up(self, link: Link) -> None: ...

    def on_down(self, link: Link) -> None:
        self.store.on_down(link)

    async def offer(
        self, chain: Chain, spoil: Callable[[list[Descriptor]], None] | None = None
    ) -> None:
        """Offer a chain and wait until the store is done with it."""
        blocks = chain.write(self.arena)
        if spoil is not None:
            spoil(blocks)
        done = asyncio.Event()
        self.store.offer(ROOT, chain.units, blocks, done.set)
        await asyncio.wait_for(done.wait(), 5)
        await settle()

    async def read(self, chain: Chain) -> int:
        """Look a chain up and read what is found; wrong bytes fail the test."""
        lease = await self.store.lookup(chain.names)
        targets = [memoryview(bytearray(chain.layout.block_bytes)) for _ in range(lease.blocks)]
        good = await lease.read(targets)
        for i in range(good):
            assert targets[i] == chain.content(i)
        await settle()
        return good


class World:
    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.arenas = MemoryArenas()
        self.router = FakeRouter(self.network)
        self.heartbeats: list[NoHeartbeat] = []

    def app(self, slots: int = SLOTS, slot_bytes: int = 0) -> KvStoreApp:
        def heartbeat(me: ProcessId, beat: Callable[[], Pulse]) -> NoHeartbeat:
            self.heartbeats.append(NoHeartbeat(me, beat))
            return self.heartbeats[-1]

        return KvStoreApp(
            self.network.port(STORE, "mem://kvstore"),
            "mem://router",
            self.arenas.transfer(),
            lambda arena: self.arenas.publish(arena, STORE),
            ShelfRules("", slots * LAYOUT.block_bytes, slot_bytes),
            heartbeat,
        )

    async def worker(self, *args: object, **kwargs: object) -> Worker:
        worker = Worker(self, *args, **kwargs)
        worker.store.store_changed(
            PeerRef(STORE.name, STORE.incarnation, Role.KVSTORE, "mem://kvstore")
        )
        await settle()
        return worker


def with_app(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    """Decorates a test of a running `app` in a `world`, on a clock that jumps. The store's books
    must balance at its end."""

    def run(world: World, **arguments: object) -> None:
        async def body() -> None:
            app = world.app()
            await app.start()
            await settle()
            await test(world=world, app=app, **arguments)
            if app.stock.shelf is not None:
                app.stock.shelf.directory.check_invariants()
            await app.stop()

        warped(body)

    signature = inspect.signature(test)
    own = [parameter for name, parameter in signature.parameters.items() if name != "app"]
    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    run.__signature__ = signature.replace(parameters=own)
    return run
