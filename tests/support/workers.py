"""Real workers with mock engines on a network in memory, between a router and gateways that a test
plays. Meant for a loop on a warped clock; an engine takes STEP_S a step."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from common.domain.block import ArenaRef, Descriptor
from common.domain.errors import ErrorCode
from common.domain.ids import AttemptKey, Incarnation, ProcessId, ProcessName
from common.domain.peer import PeerRef, Role
from common.domain.sampling import SamplingParams
from common.engine.engine import Engine, EngineLimits
from common.engine.host import EngineOnLoop
from common.engine.mock import MockRunner, expected_output
from common.engine.prefix_cache import PrefixCache
from common.kv.hashing import extend_chain
from common.store.arena import PAGE_BYTES, Arena
from common.store.memory import InlineExecutor, MemoryArenas
from common.store.transfer import Transfer
from common.wire.columns import pack_hashes, pack_i32, unpack_i32
from common.wire.memory_port import MemoryNetwork
from common.wire.messages import Message
from common.wire.messages.cluster import Hello, StoreView, Welcome
from common.wire.messages.submit import Cancel, Failed, Submit
from common.wire.messages.tokens import FinishAck, Finished, TokenBatch
from common.wire.messages.work import Accepted, Assign, Ended, PromptDone, Renew
from common.wire.port import Link
from common.worker.mock_engine import MOCK_CONTEXT_TOKENS, mock_card
from common.worker.node import Node, Parts
from common.worker.worker import Worker
from services.kvstore.app import KvStoreApp
from services.kvstore.shelf import ShelfRules
from tests.support.engines import ROOT, greedy, key
from tests.support.store_world import NoHeartbeat

BLOCK_TOKENS = 32
STEP_S = 0.01
LATENCY_S = 0.001
M = TypeVar("M")


class Peer:
    """One fake process: remembers what it hears, and on which link."""

    def __init__(self, network: MemoryNetwork, name: str, role: Role, life: int = 1) -> None:
        me = ProcessId(ProcessName(name), Incarnation(life))
        self.ref = PeerRef(me.name, me.incarnation, role, f"mem://{name}/{life}")
        self.port = network.port(me, self.ref.address)
        self.heard: list[tuple[Link, Message]] = []
        self.downs: list[Link] = []
        self.port.start(self)

    def on_message(self, link: Link, message: Message) -> None:
        self.heard.append((link, message))

    def on_up(self, link: Link) -> None: ...

    def on_down(self, link: Link) -> None:
        self.downs.append(link)

    def all(self, kind: type[M]) -> list[M]:
        return [message for _, message in self.heard if isinstance(message, kind)]

    def die(self) -> None:
        self.port.close()


class FakeRouter(Peer):
    """Welcomes everybody and links to every worker that says Hello."""

    def __init__(self, network: MemoryNetwork, name: str = "router-0", life: int = 1) -> None:
        super().__init__(network, name, Role.ROUTER, life)
        self.to: dict[str, Link] = {}
        self.back: dict[str, Link] = {}
        """The workers' own links to us."""

    def on_message(self, link: Link, message: Message) -> None:
        super().on_message(link, message)
        if isinstance(message, Hello):
            link.send(Welcome(accepted=True))
            self.back[message.me.name] = link
            self.to[message.me.name] = self.port.connect(message.me.address, message.me.id)

    def about(self, wanted: AttemptKey) -> list[type[Message]]:
        """What writers said of one attempt, in order."""
        said = (Accepted, PromptDone, Ended, Failed)
        return [type(m) for _, m in self.heard if isinstance(m, said) and m.key == wanted]


class FakeGateway(Peer):
    """Puts streams together; renews and acknowledges unless told not to."""

    def __init__(self, network: MemoryNetwork, name: str = "gateway-0", life: int = 1) -> None:
        super().__init__(network, name, Role.GATEWAY, life)
        self.tokens: dict[tuple[AttemptKey, int], list[int]] = {}
        self.ends: dict[tuple[AttemptKey, int], int] = {}
        self.finished: dict[AttemptKey, list[Finished]] = {}
        self.renews = self.acknowledges = True
        self.watched: dict[AttemptKey, Link] = {}

    def watch(self, wanted: AttemptKey, writer: PeerRef) -> None:
        self.watched[wanted] = self.port.connect(writer.address, writer.id)

    async def renew(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            for wanted, link in self.watched.items():
                if self.renews:
                    link.send(Renew((wanted,)))

    def on_message(self, link: Link, message: Message) -> None:
        super().on_message(link, message)
        match message:
            case TokenBatch():
                self._take(message)
            case Finished(finished):
                self.finished.setdefault(finished, []).append(message)
                if self.acknowledges:
                    link.send(FinishAck(finished))

    def _take(self, batch: TokenBatch) -> None:
        tokens = unpack_i32(batch.tokens).tolist()
        columns = [
            unpack_i32(column).tolist()
            for column in (batch.attempts, batch.choices, batch.starts, batch.counts)
        ]
        rows = zip(batch.requests, *columns, batch.finishes, strict=True)
        for request, attempt, choice, start, count, finish in rows:
            stream = key(request, attempt), choice
            have = self.tokens.setdefault(stream, [])
            assert start == len(have), "tokens come once and in order"
            have += tokens[:count]
            del tokens[:count]
            if finish:
                self.ends[stream] = finish
        assert not tokens


@dataclass(slots=True)
class Reads:
    """What a test does to pulls: `before` runs ahead of every read."""

    before: Callable[[ArenaRef, Sequence[Descriptor]], None] = lambda ref, blocks: None
    bytes: int = 0


class WatchedArenas(MemoryArenas):
    def __init__(self) -> None:
        super().__init__()
        self.reads = Reads()

    def read(
        self,
        ref: ArenaRef,
        descriptors: Sequence[Descriptor],
        length: int,
        targets: Sequence[memoryview],
    ) -> list[bool]:
        self.reads.before(ref, descriptors)
        verified = super().read(ref, descriptors, length, targets)
        self.reads.bytes += sum(verified) * length
        return verified


@dataclass
class Site:
    """One worker and what a test may look at."""

    app: Worker
    engine: Engine
    arena: Arena
    ref: PeerRef
    heartbeat: NoHeartbeat
    reused: list[int] = field(default_factory=list)

    @property
    def node(self) -> Node:
        return self.app._node

    def idle(self) -> bool:
        """Nothing is held for anybody."""
        self.engine.cache.check_invariants()
        left = {
            "blocks": self.engine.cache.used,
            "pins": self.node.pins.open,
            "attempts": len(self.app._attempts),
            "hand_offs": len(self.app._hand_offs),
            "sequences": self.engine.running + self.engine.waiting,
        }
        return not any(left.values())


class Stage:
    """A context manager: everything on it has stopped afterwards."""

    def __init__(self) -> None:
        self.network = MemoryNetwork(LATENCY_S)
        self.arenas = WatchedArenas()
        self.router = FakeRouter(self.network)
        self.gateway = FakeGateway(self.network)
        self.sites: dict[str, Site] = {}
        self.stores: list[KvStoreApp] = []
        self._renewing = asyncio.get_running_loop().create_task(self.gateway.renew())

    async def worker(
        self, name: str, slots: int = 64, limits: EngineLimits | None = None, life: int = 3
    ) -> Site:
        me = ProcessId(ProcessName(name), Incarnation(life))
        arena = Arena.create(name, slots, PAGE_BYTES)
        runner = MockRunner(BLOCK_TOKENS, MOCK_CONTEXT_TOKENS)
        runner.bind(arena.memory, slots, PAGE_BYTES)
        clock = asyncio.get_running_loop().time
        engine = Engine(runner, PrefixCache(slots, arena.bump), limits or EngineLimits(), clock)
        beats: list[NoHeartbeat] = []

        def heartbeat(me: ProcessId, beat: Callable[[], object]) -> NoHeartbeat:
            beats.append(NoHeartbeat(me, beat))
            return beats[-1]

        parts = Parts(
            port=self.network.port(me, f"mem://{name}/{life}"),
            host=EngineOnLoop(engine, STEP_S),
            arena=arena,
            layout=runner.layout,
            transfer=Transfer("", self.arenas, self.arenas, InlineExecutor()),
            publish=lambda made: self.arenas.publish(made, me),
            heartbeat=heartbeat,
            card=mock_card(BLOCK_TOKENS),
        )
        role = Role[name.split("-")[0].upper()]
        app = Worker(role, parts, self.router.ref.address)
        await app.start()
        self.sites[name] = Site(app, engine, arena, app._node.me, beats[0])
        await self.settle()
        return self.sites[name]

    async def split(self, **prefill: EngineLimits) -> tuple[Site, Site]:
        """(prefill-0, decode-0)"""
        return await self.worker("prefill-0", **prefill), await self.worker("decode-0")

    async def store(self, slots: int = 64) -> KvStoreApp:
        """A real kvstore that every worker is told to use."""
        me = ProcessId(ProcessName("kvstore-0"), Incarnation(5))
        app = KvStoreApp(
            self.network.port(me, "mem://kvstore-0"),
            self.router.ref.address,
            self.arenas.transfer(),
            lambda arena: self.arenas.publish(arena, me),
            ShelfRules("", slots * PAGE_BYTES, PAGE_BYTES),
            NoHeartbeat,
        )
        await app.start()
        self.stores.append(app)
        await self.settle()
        (hello,) = [hello for hello in self.router.all(Hello) if hello.me.id == me]
        await self.use_store(hello.me)
        return app

    async def use_store(self, store: PeerRef | None) -> None:
        for site in self.sites:
            self.router.to[site].send(StoreView(store))
        await self.settle()

    def submit(
        self,
        name: str,
        prompt: Sequence[int],
        params: SamplingParams | None = None,
        deadline_ms: int = 0,
    ) -> Submit:
        return Submit(
            key(name),
            pack_i32(prompt),
            pack_hashes(extend_chain(ROOT, prompt)),
            params or greedy(8),
            deadline_ms=deadline_ms,
            root=ROOT,
        )

    def assign(self, writer: Site, submit: Submit, prefill: Site | None = None) -> AttemptKey:
        """As a router does, and the gateway watches at once."""
        helper = prefill.ref if prefill is not None else None
        self.router.to[writer.ref.name].send(Assign(submit, self.gateway.ref, helper, 1.5))
        self.gateway.watch(submit.key, writer.ref)
        return submit.key

    async def settle(self) -> None:
        """Messages under way arrive; engines do not step meanwhile, or once at most."""
        await asyncio.sleep(6 * LATENCY_S)

    async def until(self, condition: Callable[[], bool], limit_s: float = 60.0) -> None:
        async with asyncio.timeout(limit_s):
            while not condition():
                await asyncio.sleep(LATENCY_S / 2)

    async def finish(self, wanted: AttemptKey) -> Finished:
        await self.until(lambda: wanted in self.gateway.finished)
        return self.gateway.finished[wanted][0]

    def assert_output(
        self, wanted: AttemptKey, prompt: Sequence[int], params: SamplingParams
    ) -> None:
        for choice in range(params.n):
            expected = expected_output(prompt, params, choice)
            assert self.gateway.tokens[wanted, choice] == expected

    async def assert_idle(self, limit_s: float = 1.0) -> None:
        """Soon nothing is held anywhere."""
        await self.until(lambda: all(site.idle() for site in self.sites.values()), limit_s)

    def cancel(self, writer: Site, wanted: AttemptKey) -> None:
        self.router.to[writer.ref.name].send(Cancel(wanted))

    async def kill(self, site: Site) -> None:
        """The process is gone; its memory stays readable for who has mapped it."""
        del self.sites[site.ref.name]
        site.node.port.close()
        site.node.host.stop()
        await site.node.tasks.cancel_all()

    async def __aenter__(self) -> "Stage":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._renewing.cancel()
        for site in self.sites.values():
            await site.app.stop()
        for store in self.stores:
            await store.stop()


def failures(peer: Peer) -> list[tuple[str, ErrorCode]]:
    return [(failed.key.request, failed.code) for failed in peer.all(Failed)]
