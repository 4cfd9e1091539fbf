"""A router on a network in memory, with workers and gateways that do what a test tells them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from common.domain.errors import ErrorCode
from common.domain.ids import AttemptKey, Incarnation, ProcessId, ProcessName, UnitHash
from common.domain.peer import Medium
from common.runtime.tasks import Tasks
from common.wire.columns import pack_hashes
from common.wire.memory_port import MemoryNetwork
from common.wire.messages import Message
from common.wire.messages.cluster import Goodbye, Hello, Load, Pulse
from common.wire.messages.events import BlocksRemoved, BlocksStored, Snapshot, SnapshotWanted
from common.wire.messages.submit import Cancel, Failed
from common.wire.messages.work import Accepted, Assign, Ended, PromptDone
from common.wire.port import Link
from services.router.app import RouterApp
from services.router.plan import DEFAULT_RULES, PlanRules
from tests.support.router_world import CARD, ROOT, hello, key, prompt_of, submit

ROUTER = "mem://router-0"
SPLIT = ("decode-0", "prefill-0", "gateway-0")
R1, R2, R3 = key("r1"), key("r2"), key("r3")
SHARED = prompt_of(40, label=3)
"""A long prompt that differs from the one submits have by default."""
M = TypeVar("M")


class FakePeer:
    """Says Hello on every connection to the router, pulses, and remembers what it hears."""

    def __init__(self, network: MemoryNetwork, tasks: Tasks, greeting: Hello) -> None:
        self.hello = greeting
        self.me = greeting.me
        self.port = network.port(self.me.id, self.me.address)
        self.port.start(self)
        self.heard: list[Message] = []
        self.links: list[Link] = []
        self.load = greeting.load
        self.steps = 0
        self.pulsing = True
        self.router = self.port.connect(ROUTER)
        tasks.spawn(self._pulse(), f"pulse of {self.me.name}")

    async def _pulse(self) -> None:
        while self.port.alive:
            if self.pulsing:
                self.steps += 1
                self.router.send(Pulse(self.me, self.steps, self.load))
            await asyncio.sleep(0.2)

    def on_up(self, link: Link) -> None:
        if link is self.router:
            link.send(self.hello)

    def on_down(self, link: Link) -> None:
        """The link to a bare address dials again by itself."""

    def on_message(self, link: Link, message: Message) -> None:
        self.heard.append(message)
        self.links.append(link)

    def all(self, kind: type[M]) -> list[M]:
        return [message for message in self.heard if isinstance(message, kind)]

    def last(self, kind: type[M]) -> M:
        return self.all(kind)[-1]

    def die(self) -> None:
        self.port.close()


class FakeGateway(FakePeer):
    def failures(self) -> list[tuple[AttemptKey, ErrorCode]]:
        return [(failed.key, failed.code) for failed in self.all(Failed)]


class FakeWorker(FakePeer):
    """Accepts everything unless told otherwise; answers for its cache."""

    def __init__(self, network: MemoryNetwork, tasks: Tasks, greeting: Hello) -> None:
        self.assigned: dict[AttemptKey, Assign] = {}
        self.answer: Message | None = None
        """Sent for every Assign instead of Accepted, with its key."""
        self.silent = False
        self.cache: list[tuple[UnitHash, UnitHash]] = []
        self.number = 0
        self._ways: dict[AttemptKey, Link] = {}
        super().__init__(network, tasks, greeting)

    def on_message(self, link: Link, message: Message) -> None:
        super().on_message(link, message)
        match message:
            case Assign():
                key = message.submit.key
                self.assigned[key], self._ways[key] = message, link
                if not self.silent:
                    link.send(Accepted(key))
            case Cancel(key=key) if not self.silent:
                self.end(key)
            case SnapshotWanted():
                parents, units = zip(*self.cache, strict=True) if self.cache else ((), ())
                columns = pack_hashes(parents), pack_hashes(units)
                self.router.send(Snapshot(self.number, Medium.DEVICE, *columns))

    def say(self, key: AttemptKey, message: Message) -> None:
        """Back over the link on which the attempt came."""
        self._ways[key].send(message)

    def accept(self, key: AttemptKey) -> None:
        self.say(key, Accepted(key))

    def refuse(self, key: AttemptKey, code: ErrorCode = ErrorCode.OVERLOADED) -> None:
        self.say(key, Failed(key, code, "no room", retryable=code is ErrorCode.OVERLOADED))

    def prompt_done(self, key: AttemptKey) -> None:
        self.say(key, PromptDone(key))

    def end(self, key: AttemptKey) -> None:
        self.say(key, Ended(key))

    def store(self, units: Sequence[UnitHash], skip_number: bool = False) -> None:
        self.number += 2 if skip_number else 1
        self.cache += zip([ROOT, *units], units, strict=False)
        self.router.send(BlocksStored(self.number, Medium.DEVICE, ROOT, pack_hashes(units)))

    def remove(self, units: Sequence[UnitHash]) -> None:
        self.number += 1
        self.cache = [pair for pair in self.cache if pair[1] not in units]
        self.router.send(BlocksRemoved(self.number, Medium.DEVICE, pack_hashes(units)))

    def leave(self) -> None:
        self.router.send(Goodbye(self.me))


class Cluster:
    """Everything of one test. `settle` lets all messages on their way arrive."""

    def __init__(self, rules: PlanRules = DEFAULT_RULES, queue_limit: int = 256) -> None:
        self.network = MemoryNetwork(latency_s=0.001)
        self.tasks = Tasks()
        self._rules, self._queue_limit = rules, queue_limit
        self._lives = 0
        self.peers: dict[str, FakePeer] = {}

    async def start(self, *names: str) -> "Cluster":
        await self.start_router()
        for name in names:
            self.join(name)
        await self.settle()
        return self

    async def start_router(self) -> None:
        self._lives += 1
        me = ProcessId(ProcessName("router-0"), Incarnation(self._lives))
        port = self.network.port(me, ROUTER)
        self.router = RouterApp(port, rules=self._rules, queue_limit=self._queue_limit)
        await self.router.start()

    def join(
        self, name: str, incarnation: int = 1, greeting: Hello | None = None, **fields: Any
    ) -> FakePeer:
        """`fields` are those of support.router_world.hello."""
        greeting = greeting or hello(name, incarnation, **{"card": CARD, **fields})
        kind: Callable[[MemoryNetwork, Tasks, Hello], FakePeer] = FakePeer
        if name.startswith("gateway"):
            kind = FakeGateway
        elif not name.startswith("kvstore"):
            kind = FakeWorker
        peer = kind(self.network, self.tasks, greeting)
        self.peers[name] = peer
        setattr(self, name.replace("-", ""), peer)
        return peer

    gateway0: FakeGateway
    gateway1: FakeGateway
    decode0: FakeWorker
    decode1: FakeWorker
    prefill0: FakeWorker
    prefill1: FakeWorker
    kvstore0: FakePeer
    kvstore1: FakePeer

    async def settle(self) -> None:
        """Longer than any chain of messages, much shorter than any limit of the router."""
        await asyncio.sleep(0.02)

    async def bring_to(self, state: str) -> None:
        """r1 in the given state at decode-0; queued because its pool is full."""
        self.decode0.silent = state == "assigned"
        if state == "queued":
            self.decode0.load = Load(blocks_used=990, blocks_total=1_000)
            await asyncio.sleep(0.3)
        self.gateway0.router.send(submit("r1", SHARED if state == "queued" else None))
        await self.settle()
        if state in ("streaming", "cancelling"):
            self.decode0.prompt_done(R1)
            await self.settle()
        if state == "cancelling":
            self.decode0.silent = True
            self.gateway0.router.send(Cancel(R1))
            await self.settle()
        assert self.router.attempts.by_state()[state] == 1
