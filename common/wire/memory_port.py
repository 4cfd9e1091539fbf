"""The port inside one process: the same contract as ZeroMQ's on a network that is a dictionary.

Used by the simulator and by unit tests of services. Messages still go through the codec, so what
cannot travel cannot be sent here either. Delivery is FIFO per connection with a fixed latency on
the loop's clock, which may be virtual. `kill` is what the kernel does to a dead process: queued
messages are lost, connecting ends see it.
"""

import asyncio
from collections import deque

from common.domain.ids import ProcessId
from common.wire.codec import Codec
from common.wire.messages import TAGS, Message
from common.wire.port import Handler, Link

CODEC = Codec(TAGS)


class MemoryNetwork:
    """All ports by address, and all open connections."""

    def __init__(self, latency_s: float = 0.0001) -> None:
        self.latency_s = latency_s
        self.ports: dict[str, MemoryPort] = {}
        self.waiting: list[MemoryLink] = []

    def latency(self) -> float:
        """Seconds until the next message arrives; a simulated network draws them. Whatever it
        draws, messages of one connection do not overtake each other."""
        return self.latency_s

    def port(self, me: ProcessId, address: str) -> "MemoryPort":
        return MemoryPort(self, me, address)

    def bound(self, port: "MemoryPort") -> None:
        if port.address in self.ports:
            raise OSError(98, f"cannot bind {port.address}: Address already in use")
        self.ports[port.address] = port
        for link in [link for link in self.waiting if link.address == port.address]:
            self.waiting.remove(link)
            link.establish(port)

    def unbound(self, port: "MemoryPort") -> None:
        if self.ports.get(port.address) is port:
            del self.ports[port.address]


class _Pipe:
    """One direction of one connection. Delivery stops when either end is gone."""

    def __init__(self, network: MemoryNetwork, source: "MemoryPort", target: "MemoryPort") -> None:
        self._network = network
        self._source = source
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[Link, bytes]] = deque()
        self.broken = False

    def push(self, arrives_on: Link, message: Message) -> bool:
        if self.broken or not self._target.alive or not self._source.alive:
            return False
        self._queue.append((arrives_on, CODEC.encode(message)))
        self._loop.call_later(self._network.latency(), self._deliver)
        return True

    def _deliver(self) -> None:
        link, data = self._queue.popleft()
        if not self.broken and self._target.alive:
            self._target.handler.on_message(link, CODEC.decode(data))


class _MemoryReply:
    """The accepting end's way back."""

    def __init__(self, peer: ProcessId, back: _Pipe, link: "MemoryLink") -> None:
        self.peer: ProcessId | None = peer
        self._back = back
        self._link = link

    def send(self, message: Message) -> bool:
        return self._back.push(self._link, message)

    def close(self) -> None:
        """Nothing is held for a reply."""


class MemoryLink:
    """The connecting end."""

    def __init__(self, port: "MemoryPort", address: str, expect: ProcessId | None) -> None:
        self.address = address
        self.peer = expect
        self._port = port
        self._network = port.network
        self._loop = asyncio.get_running_loop()
        self._outbox: list[Message] = []
        self._there: _Pipe | None = None
        self._back: _Pipe | None = None
        self._reply: _MemoryReply | None = None
        self._target: MemoryPort | None = None
        self._up = False
        self._closed = False
        self._dial()

    def _dial(self) -> None:
        target = self._network.ports.get(self.address)
        if self.peer is not None and (target is None or target.me != self.peer):
            self._loop.call_later(self._network.latency(), self.break_off)
        elif target is not None:
            self.establish(target)
        else:
            self._network.waiting.append(self)

    def establish(self, target: "MemoryPort") -> None:
        self._there = _Pipe(self._network, self._port, target)
        self._back = _Pipe(self._network, target, self._port)
        self._reply = _MemoryReply(self._port.me, self._back, self)
        self._target = target
        target.accepted[self] = None
        self._loop.call_later(self._network.latency(), self._handshake)

    def _handshake(self) -> None:
        if self._there is None or self._up or self._closed or not self._port.alive:
            return
        self._up = True
        self._port.handler.on_up(self)
        outbox, self._outbox = self._outbox, []
        for message in outbox:
            self._transmit(message)

    def _transmit(self, message: Message) -> bool:
        assert self._there is not None
        assert self._reply is not None
        return self._there.push(self._reply, message)

    def send(self, message: Message) -> bool:
        if self._closed or not self._port.alive:
            return False
        if not self._up:
            self._outbox.append(message)
            return True
        return self._transmit(message)

    def break_off(self) -> None:
        """The other end died, or was not there."""
        if self._closed or not self._port.alive:
            return
        was_up = self._up
        self._cut()
        if self.peer is not None:
            self.close()
        if was_up or self._closed:
            self._port.handler.on_down(self)
        if not self._closed:
            self._dial()

    def _cut(self) -> None:
        for pipe in (self._there, self._back):
            if pipe is not None:
                pipe.broken = True
        self._there = self._back = self._reply = None
        self._up = False
        if self._target is not None:
            self._target.accepted.pop(self, None)
            self._target = None

    def close(self) -> None:
        self._cut()
        self._closed = True
        self._outbox.clear()
        if self in self._network.waiting:
            self._network.waiting.remove(self)


class MemoryPort:
    """One process's place on a MemoryNetwork."""

    handler: Handler

    def __init__(self, network: MemoryNetwork, me: ProcessId, address: str) -> None:
        self.network = network
        self._me = me
        self._address = address
        self.alive = False
        self.accepted: dict[MemoryLink, None] = {}
        """In the order in which they came, so that a death is told in the same order each time."""
        self._links: list[MemoryLink] = []

    @property
    def me(self) -> ProcessId:
        return self._me

    @property
    def address(self) -> str:
        return self._address

    def start(self, handler: Handler) -> None:
        self.handler = handler
        self.alive = True
        self.network.bound(self)

    def connect(self, address: str, expect: ProcessId | None = None) -> Link:
        link = MemoryLink(self, address, expect)
        self._links.append(link)
        return link

    def close(self) -> None:
        """Death, clean or not: the kernel closes every connection of ours."""
        if not self.alive:
            return
        self.alive = False
        self.network.unbound(self)
        for link in self._links:
            link.close()
        for link in list(self.accepted):
            link.break_off()
