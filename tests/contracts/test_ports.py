"""Every port behaves alike: order, replies, deaths, refusals."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.wire.memory_port import MemoryNetwork
from common.wire.port import Port
from common.wire.zmq_port import ZmqPort
from tests.support.ports import Recorder, cancel, process

MakePort = Callable[[str, int], Port]


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


async def test_what_was_sent_early_follows_the_greeting(make_port: MakePort) -> None:
    server, client = make_port("server", 7), make_port("client", 8)
    served = Recorder()
    server.start(served)
    client.start(Recorder(greeting=cancel(0)))
    link = client.connect(server.address, server.me)
    assert link.send(cancel(1))
    assert link.send(cancel(2))
    await served.until(lambda: len(served.messages) == 3)
    assert served.messages == [cancel(0), cancel(1), cancel(2)]


async def test_a_link_to_a_life_that_is_gone_goes_down(make_port: MakePort) -> None:
    server, client = make_port("server", 7), make_port("client", 8)
    heard = Recorder()
    client.start(heard)
    server.start(Recorder())
    address = server.address
    server.close()
    link = client.connect(address, server.me)
    link.send(cancel(1))
    await heard.until(lambda: heard.downs == [link])
    assert heard.ups == 0
    assert not link.send(cancel(2))


async def test_a_link_to_a_life_whose_place_another_has_taken_goes_down(
    make_port: MakePort,
) -> None:
    server, client = make_port("server", 9), make_port("client", 8)
    served, heard = Recorder(), Recorder()
    server.start(served)
    client.start(heard)
    link = client.connect(server.address, process("server", 7))
    link.send(cancel(1))
    await heard.until(lambda: heard.downs == [link])
    assert not link.send(cancel(2))
    assert served.messages == []


async def test_a_closed_link_hears_and_says_nothing_more(make_port: MakePort) -> None:
    server, client = make_port("server", 7), make_port("client", 8)
    served, heard = Recorder(), Recorder()
    server.start(served)
    client.start(heard)
    link = client.connect(server.address, server.me)
    link.send(cancel(1))
    await served.until(lambda: len(served.messages) == 1)
    link.close()
    link.close()
    assert not link.send(cancel(2))
    other = client.connect(server.address, server.me)
    other.send(cancel(3))
    await served.until(lambda: len(served.messages) == 2)
    server.close()
    await heard.until(lambda: heard.downs == [other])


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
