"""All processes of one cluster in one interpreter, built from their real parts.

Every process has a name; `boot` gives it a new life, `kill` ends it without a word. What differs
from a deployment are the four things that a real process gets from outside: the network, the clock
(of the loop), the heartbeat's thread and the engine's, the latter two being tasks here.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Protocol

from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.domain.peer import Role
from common.engine.engine import Engine, EngineLimits
from common.engine.host import EngineOnLoop
from common.engine.mock import MockRunner
from common.engine.prefix_cache import PrefixCache
from common.runtime.metrics import new_registry
from common.store.arena import PAGE_BYTES, Arena
from common.store.memory import MemoryArenas
from common.store.publish import Publication
from common.store.transfer import Transfer
from common.wire.messages.cluster import Pulse
from common.worker.mock_engine import MOCK_CONTEXT_TOKENS, mock_card
from common.worker.node import Parts
from common.worker.worker import Worker
from services.gateway.app import GatewayApp
from services.gateway.mock_text import mock_text
from services.gateway.served_text import ServedText
from services.kvstore.app import KvStoreApp
from services.kvstore.shelf import ShelfRules
from services.router.app import RouterApp
from services.router.plan import PlanRules
from tests.support.sim.executor import SlowExecutor
from tests.support.sim.life import Life
from tests.support.sim.network import SimHeartbeat, SimNetwork
from tests.support.sim.trace import Trace

ROUTER = "router-0"
GATEWAY = "gateway-0"
STORE = "kvstore-0"


class App(Protocol):
    async def start(self) -> None: ...
    async def drain(self) -> None: ...
    async def stop(self) -> None: ...


@dataclass(frozen=True)
class Shape:
    """How large everything is. Pools are small, so that blocks are evicted and prompts wait."""

    prefill: int = 2
    decode: int = 2
    stores: int = 1
    block_tokens: int = 16
    worker_slots: int = 64
    store_slots: int = 96
    step_s: float = 0.03
    step_tokens: int = 96
    max_sequences: int = 8
    slow_s: float = 0.02
    """Of a slow message."""

    @property
    def names(self) -> list[str]:
        """In the order in which they start."""
        prefills = [f"prefill-{i}" for i in range(self.prefill)]
        decodes = [f"decode-{i}" for i in range(self.decode)]
        return [ROUTER, *([STORE] if self.stores else []), *prefills, *decodes, GATEWAY]


def drawn(seed: str) -> Shape:
    """Sizes and speeds that make different things scarce."""
    rng = Random(f"{seed}/shape")
    return Shape(
        block_tokens=rng.choice((16, 32)),
        worker_slots=rng.choice((40, 64, 160)),
        store_slots=rng.choice((16, 96, 400)),
        step_s=rng.choice((0.01, 0.03, 0.06)),
        step_tokens=rng.choice((32, 96, 512)),
        max_sequences=rng.choice((4, 8, 32)),
        slow_s=rng.choice((0.001, 0.02, 0.3)),
    )


@dataclass
class Outage:
    """A process that was dead or frozen; `until` there was a successor, or it went on."""

    me: ProcessId
    since: float
    asked: bool = False
    """It drained first: what it had taken on must not suffer."""
    until: float = float("inf")


@dataclass
class Running:
    life: Life
    app: App
    started: frozenset[str]
    """The tasks that it runs for ever."""
    troubled: bool = False
    """Something is being done to it."""


@cache
def _text() -> ServedText:
    return mock_text()


class World:
    def __init__(self, seed: str, shape: Shape, trace: Trace) -> None:
        self.shape = shape
        self.trace = trace
        self.network = SimNetwork(Random(f"{seed}/network"), trace, shape.slow_s)
        self.arenas = MemoryArenas()
        self.running: dict[str, Running] = {}
        self.outages: list[Outage] = []
        self._seed = seed
        self._rng = Random(f"{seed}/world")
        self._lives: dict[str, int] = {}
        self._made: list[Arena] = []

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def app(self, name: str) -> App | None:
        found = self.running.get(name)
        return found.app if found is not None else None

    @property
    def router(self) -> RouterApp | None:
        app = self.app(ROUTER)
        assert app is None or isinstance(app, RouterApp)
        return app

    @property
    def gateway(self) -> GatewayApp | None:
        app = self.app(GATEWAY)
        assert app is None or isinstance(app, _Gateway)
        return app.app if app is not None else None

    @property
    def store(self) -> KvStoreApp | None:
        app = self.app(STORE)
        assert app is None or isinstance(app, KvStoreApp)
        return app

    def workers(self) -> dict[str, Worker]:
        return {name: run.app for name, run in self.running.items() if isinstance(run.app, Worker)}

    async def boot(self, name: str) -> None:
        number = self._lives[name] = self._lives.get(name, 0) + 1
        life = Life(ProcessId(ProcessName(name), Incarnation(number)))
        app = life.run(self._build, name, life)
        await life.spawn(app.start(), "start")
        self.running[name] = Running(life, app, frozenset(life.tasks()))
        self._over(name)
        self.trace.note(self.now, name, "boot")
        self.trace.tell(self.now, name, f"--- life {number} begins")

    def kill(self, name: str) -> None:
        running = self.running.pop(name)
        self.trace.note(self.now, name, "kill")
        self.trace.tell(self.now, name, "--- killed")
        self.outages.append(Outage(running.life.me, self.now))
        running.life.end()

    async def retire(self, name: str) -> None:
        """As after SIGTERM."""
        running = self.running[name]
        self.trace.note(self.now, name, "retire")
        self.trace.tell(self.now, name, "--- asked to go")
        self.outages.append(Outage(running.life.me, self.now, asked=True))
        await running.life.spawn(running.app.drain(), "drain")
        await running.life.spawn(running.app.stop(), "stop")
        del self.running[name]
        running.life.end()
        self.trace.note(self.now, name, "gone")
        self.trace.tell(self.now, name, "--- gone")

    def freeze(self, name: str) -> None:
        life = self.running[name].life
        self.trace.note(self.now, name, "freeze")
        self.trace.tell(self.now, name, "--- frozen")
        self.outages.append(Outage(life.me, self.now))
        life.freeze()

    def thaw(self, name: str) -> None:
        self.trace.note(self.now, name, "thaw")
        self.trace.tell(self.now, name, "--- thawed")
        self._over(name)
        self.running[name].life.thaw()

    def _over(self, name: str) -> None:
        for outage in self.outages:
            if outage.me.name == name:
                outage.until = min(outage.until, self.now)

    def close(self) -> None:
        for name in list(self.running):
            self.kill(name)
        for arena in self._made:
            arena.close()

    def _build(self, name: str, life: Life) -> App:
        address = f"mem://{name}"
        match name.split("-")[0]:
            case "router":
                rules = PlanRules(self.shape.max_sequences, local_prefill_tokens=64)
                port = self.network.port_of(life, address)
                return RouterApp(port, rules=rules, queue_limit=64, seed=1)
            case "gateway":
                return _Gateway(self, life, address)
            case "kvstore":
                return KvStoreApp(
                    self.network.port_of(life, address),
                    f"mem://{ROUTER}",
                    self._transfer(),
                    self._publisher(life),
                    ShelfRules("", self.shape.store_slots * PAGE_BYTES),
                    SimHeartbeat(self.network, life, address).beating,
                )
            case "prefill":
                return Worker(Role.PREFILL, self._parts(life, address), f"mem://{ROUTER}")
            case "decode":
                return Worker(Role.DECODE, self._parts(life, address), f"mem://{ROUTER}")
            case _:
                raise ValueError(name)

    def _parts(self, life: Life, address: str) -> Parts:
        shape = self.shape
        runner = MockRunner(shape.block_tokens, MOCK_CONTEXT_TOKENS)
        arena = Arena.create(life.me.name, shape.worker_slots, PAGE_BYTES)
        self._made.append(arena)
        runner.bind(arena.memory, arena.slots, arena.slot_bytes)
        engine = Engine(
            runner,
            PrefixCache(arena.slots, arena.bump),
            EngineLimits(shape.step_tokens, shape.max_sequences),
            asyncio.get_running_loop().time,
        )
        return Parts(
            port=self.network.port_of(life, address),
            host=EngineOnLoop(engine, shape.step_s * self._rng.uniform(0.7, 1.3)),
            arena=arena,
            layout=runner.layout,
            transfer=self._transfer(),
            publish=self._publisher(life),
            heartbeat=SimHeartbeat(self.network, life, address).beating,
            card=mock_card(shape.block_tokens),
        )

    def _transfer(self) -> Transfer:
        executor = SlowExecutor(lambda: self._rng.uniform(0.0001, 0.003))
        return Transfer("", self.arenas, self.arenas, executor)

    def _publisher(self, life: Life) -> Callable[[Arena], Publication]:
        def publish(arena: Arena) -> Publication:
            if arena not in self._made:
                self._made.append(arena)
            return self.arenas.publish(arena, life.me)

        return publish


class _Gateway:
    """GatewayService without HTTP: the app and its heartbeat."""

    def __init__(self, world: World, life: Life, address: str) -> None:
        rng = Random(f"{life.me}/gateway")
        port = world.network.port_of(life, address)
        self.app = GatewayApp(port, f"mem://{ROUTER}", _text(), rng, new_registry())
        heartbeat = SimHeartbeat(world.network, life, address)
        self._pulse = heartbeat.beating(life.me, lambda: Pulse(self.app.me, 0))
        self._pulse.listen(frozenset({f"mem://{ROUTER}"}))

    async def start(self) -> None:
        self.app.start()
        self._pulse.start()

    async def drain(self) -> None:
        await self.app.drain()

    async def stop(self) -> None:
        self._pulse.stop()
        await self.app.stop()
