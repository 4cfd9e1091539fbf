import asyncio

from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.domain.peer import PeerRef, Role
from common.runtime.membership import RouterLink
from common.wire.memory_port import MemoryNetwork, MemoryPort
from common.wire.messages import Message
from common.wire.messages.cluster import Goodbye, Hello, Welcome
from common.wire.port import Link

ROUTER = "memory://router"


def peer(name: str, life: int, role: Role = Role.DECODE) -> PeerRef:
    return PeerRef(ProcessName(name), Incarnation(life), role, f"memory://{name}")


class Router:
    """Welcomes whoever comes and keeps what it heard."""

    def __init__(self, network: MemoryNetwork, life: int) -> None:
        self.heard: list[Message] = []
        self.port = network.port(ProcessId(ProcessName("router-0"), Incarnation(life)), ROUTER)
        self.port.start(self)

    def on_message(self, link: Link, message: Message) -> None:
        self.heard.append(message)
        if isinstance(message, Hello):
            link.send(Welcome(accepted=True))

    def on_up(self, link: Link) -> None: ...
    def on_down(self, link: Link) -> None: ...


class Member:
    """Knows its router and one other process."""

    def __init__(self, port: MemoryPort) -> None:
        self.me = peer("decode-0", 5)
        self.router = RouterLink(port, ROUTER, lambda: Hello(self.me))
        self.events: list[tuple[str, bool]] = []
        self.heard: list[tuple[bool, Message]] = []
        self.port = port
        port.start(self)
        self.router.start()

    def on_message(self, link: Link, message: Message) -> None:
        self.heard.append((self.router.owns(link), message))

    def on_up(self, link: Link) -> None:
        self.events.append(("up", self.router.on_up(link)))

    def on_down(self, link: Link) -> None:
        self.events.append(("down", self.router.on_down(link)))


def member(network: MemoryNetwork) -> Member:
    me = ProcessId(ProcessName("decode-0"), Incarnation(5))
    return Member(network.port(me, "memory://decode-0"))


async def settle() -> None:
    """Long enough, in turns of the loop, for any exchange on a network without latency."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_hello_is_the_first_message_and_the_answer_comes_on_the_link() -> None:
    network = MemoryNetwork(latency_s=0.0)
    router = Router(network, 1)
    decode = member(network)
    await settle()
    assert router.heard == [Hello(decode.me)]
    assert decode.router.up
    assert decode.heard == [(True, Welcome(accepted=True))]


async def test_nothing_is_queued_while_the_router_is_away() -> None:
    network = MemoryNetwork(latency_s=0.0)
    decode = member(network)
    await settle()
    assert not decode.router.up
    assert not decode.router.send(Goodbye(decode.me))
    router = Router(network, 1)
    await settle()
    assert router.heard == [Hello(decode.me)]
    assert decode.router.send(Goodbye(decode.me))


async def test_a_restarted_router_hears_hello_again() -> None:
    network = MemoryNetwork(latency_s=0.0)
    first = Router(network, 1)
    decode = member(network)
    await settle()
    first.port.close()
    await settle()
    assert not decode.router.up
    second = Router(network, 2)
    await settle()
    assert second.heard == [Hello(decode.me)]
    assert decode.events == [("up", True), ("down", True), ("up", True)]


async def test_a_link_to_somebody_else_is_not_the_routers() -> None:
    network = MemoryNetwork(latency_s=0.0)
    decode = member(network)
    prefill = network.port(ProcessId(ProcessName("prefill-0"), Incarnation(9)), "memory://prefill")
    prefill.start(Router(network, 1))
    decode.port.connect("memory://prefill", prefill.me)
    await settle()
    assert sorted(decode.events) == [("up", False), ("up", True)]


async def test_after_close_nothing_is_sent() -> None:
    network = MemoryNetwork(latency_s=0.0)
    Router(network, 1)
    decode = member(network)
    await settle()
    decode.router.close()
    assert not decode.router.send(Goodbye(decode.me))
