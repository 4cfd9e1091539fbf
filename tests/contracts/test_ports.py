"""Every port behaves alike: order, replies, deaths, refusals."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common.domain.ids import AttemptKey, Incarnation, ProcessId, ProcessName, RequestId
from common.wire.memory_port import MemoryNetwork
from common.wire.messages import Cancel, Message
from common.wire.port import Link, Port
from common.wire.zmq_port import ZmqPort

MakePort = Callable[[str, int], Port]


def cancel(number: int) -> Cancel:
    return Cancel(AttemptKey(RequestId(f"r{number}"), number))


class Recorder:
    """Remembers everything; answers if told to."""

    def __init__(self, answer: bool = False) -> None:
        self.messages: list[Message] = []
        self.ups = 0
        self.downs: list[Link] = []
        self.last: Link | None = None
        self._answer = answer
        self._changed = asyncio.Event()

    def on_message(self, link: Link, message: Message) -> None:
        self.messages.append(message)
        self.last = link
        if self._answer:
            link.send(message)
        self._changed.set()

    def on_up(self, link: Link) -> None:
        self.ups += 1
        self._changed.set()

    def on_down(self, link: Link) -> None:
        self.downs.append(link)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture(params=["memory", "ipc", "tcp"])
def make_port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakePort]:
    network = MemoryNetwork()
    made: list[Port] = []

    def make(name: str, incarnation: int) -> Port:
        me = ProcessId(ProcessName(name), Incarnation(incarnation))
        port: Port
        if request.param == "memory":
            port = network.port(me, f"mem://{name}")
        elif request.param == "ipc":
            port = ZmqPort(me, f"ipc://{tmp_path}/{name}")
        else:
            port = ZmqPort(me, "tcp://127.0.0.1:*")
        made.append(port)
        return port

    yield make
    for port in made:
        port.close()


async def test_messages_arrive_in_order_and_replies_come_back(make_port: MakePort) -> None:
    server, client = make_port("server", 7), make_port("client", 8)
    echo, heard = Recorder(answer=True), Recorder()
    server.start(echo)
    client.start(heard)
    link = client.connect(server.address, server.me)
    sent = [cancel(number) for number in range(500)]
    assert all(link.send(message) for message in sent)
    await heard.until(lambda: len(heard.messages) == 500)
    assert echo.messages == sent
    assert heard.messages == sent
    assert echo.last is not None
    assert echo.last.peer == client.me
    assert heard.ups == 1


async def test_a_link_dialled_before_its_peer_exists_comes_up(make_port: MakePort) -> None:
    server, client = make_port("late", 7), make_port("client", 8)
    if server.address.startswith("tcp"):
        pytest.skip("a tcp port has no address before it is bound")
    heard, served = Recorder(), Recorder()
    client.start(heard)
    link = client.connect(server.address)
    assert link.send(cancel(1))
    server.start(served)
    await served.until(lambda: served.messages == [cancel(1)])


async def test_the_connecting_end_sees_a_death_at_once(make_port: MakePort) -> None:
    server, client = make_port("server", 7), make_port("client", 8)
    served, heard = Recorder(), Recorder()
    server.start(served)
    client.start(heard)
    link = client.connect(server.address, server.me)
    await heard.until(lambda: heard.ups == 1)
    server.close()
    await heard.until(lambda: heard.downs == [link])
    assert not link.send(cancel(1))


async def test_a_bare_link_reconnects_to_a_successor_but_old_messages_do_not(
    make_port: MakePort,
) -> None:
    first, client = make_port("server", 7), make_port("client", 8)
    if first.address.startswith("tcp"):
        pytest.skip("a successor gets another port number")
    served, heard = Recorder(answer=True), Recorder()
    first.start(served)
    client.start(heard)
    link = client.connect(first.address)
    link.send(cancel(1))
    await heard.until(lambda: heard.messages == [cancel(1)])
    first.close()
    await heard.until(lambda: heard.downs == [link])
    second = make_port("server", 9)
    again = Recorder(answer=True)
    second.start(again)
    await heard.until(lambda: heard.ups == 2)
    assert link.send(cancel(2))
    await heard.until(lambda: cancel(2) in heard.messages)
    assert again.messages == [cancel(2)]


async def test_a_reply_to_the_dead_is_refused(make_port: MakePort) -> None:
    server, client = make_port("server", 7), make_port("client", 8)
    served, heard = Recorder(), Recorder()
    server.start(served)
    client.start(heard)
    client.connect(server.address, server.me).send(cancel(1))
    await served.until(lambda: len(served.messages) == 1)
    client.close()
    reply = served.last
    assert reply is not None
    async with asyncio.timeout(5):
        while reply.send(cancel(2)):
            await asyncio.sleep(0.01)


async def test_a_taken_address_is_an_error(make_port: MakePort, tmp_path: Path) -> None:
    server = make_port("server", 7)
    server.start(Recorder())
    if server.address.startswith("ipc"):
        pytest.skip("a file of a dead predecessor looks the same; the supervisor holds the lock")
    rival = (
        ZmqPort(ProcessId(ProcessName("rival"), Incarnation(1)), server.address)
        if server.address.startswith("tcp")
        else make_port("server", 8)
    )
    with pytest.raises(OSError, match="cannot bind"):
        rival.start(Recorder())
    rival.close()
