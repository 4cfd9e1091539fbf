"""The network in memory with seeded latencies, and every delivery in the trace."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from common.domain.ids import ProcessId
from common.wire.memory_port import CODEC, MemoryNetwork, MemoryPort
from common.wire.messages import Message
from common.wire.messages.cluster import Pulse
from common.wire.port import Handler, Link
from common.wire.pulse import PULSE_INTERVAL_S
from tests.support.sim.life import Life
from tests.support.sim.trace import Trace

Lost = Callable[[ProcessId, Message], bool]
"""Does this message never arrive there?"""


class SimNetwork(MemoryNetwork):
    def __init__(self, rng: Random, trace: Trace, slow_s: float) -> None:
        """Most messages take 50 to 500 us, one in twenty up to `slow_s`."""
        super().__init__()
        self.trace = trace
        self.lost: Lost = lambda receiver, message: False
        self._rng = rng
        self._slow_s = slow_s

    def latency(self) -> float:
        longest = self._slow_s if self._rng.random() < 0.05 else 0.0005
        return self._rng.uniform(0.00005, longest)

    def port_of(self, life: Life, address: str) -> "SimPort":
        return SimPort(self, life, address)


class SimPort(MemoryPort):
    """Handlers run as their process."""

    def __init__(self, network: SimNetwork, life: Life, address: str) -> None:
        super().__init__(network, life.me, address)
        self._life = life
        self._net = network
        life.ports.append(self)

    def start(self, handler: Handler) -> None:
        super().start(_Delivered(handler, self._life, self._net))


class _Delivered:
    def __init__(self, handler: Handler, life: Life, network: SimNetwork) -> None:
        self._handler = handler
        self._life = life
        self._network = network

    def on_message(self, link: Link, message: Message) -> None:
        me = self._life.me
        kind = type(message).__name__
        way = f"{link.peer or 'router'}>{me}"
        now = asyncio.get_running_loop().time()
        if self._network.lost(me, message):
            self._network.trace.note(now, way, f"lost {kind}")
            return
        self._network.trace.note(now, way, kind, CODEC.encode(message))
        self._life.receive(self._handler.on_message, link, message)

    def on_up(self, link: Link) -> None:
        self._life.receive(self._handler.on_up, link)

    def on_down(self, link: Link) -> None:
        self._life.receive(self._handler.on_down, link)


class SimHeartbeat:
    """The twin of PulseThread: a connection of its own, nothing queued for who is not there."""

    def __init__(self, network: SimNetwork, life: Life, address: str) -> None:
        self._port = network.port_of(life, f"{address}/pulse")
        self._wanted: Sequence[str] = ()
        self._links: dict[str, Link] = {}
        self._up: list[Link] = []

    def beating(self, me: ProcessId, beat: Callable[[], Pulse]) -> "SimHeartbeat":
        """As a MakeHeartbeat."""
        self._beat = beat
        return self

    def start(self) -> None:
        self._port.start(self)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="pulse")

    def listen(self, addresses: frozenset[str]) -> None:
        self._wanted = sorted(addresses)

    def stop(self) -> None:
        self._task.cancel()
        self._port.close()

    def on_message(self, link: Link, message: Message) -> None:
        """Nobody answers a pulse."""

    def on_up(self, link: Link) -> None:
        self._up.append(link)

    def on_down(self, link: Link) -> None:
        self._up.remove(link)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PULSE_INTERVAL_S)
            for address in [address for address in self._links if address not in self._wanted]:
                link = self._links.pop(address)
                link.close()
                if link in self._up:
                    self._up.remove(link)
            for address in self._wanted:
                if address not in self._links:
                    self._links[address] = self._port.connect(address)
            pulse = self._beat()
            for link in self._up:
                link.send(pulse)
