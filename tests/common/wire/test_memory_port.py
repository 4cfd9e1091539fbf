"""The in-memory network on its own terms: latency, death, what cannot travel."""

import asyncio
from dataclasses import dataclass
from typing import cast

import pytest

from common.wire.memory_port import MemoryNetwork, MemoryPort
from common.wire.messages import Message
from common.wire.port import Link
from tests.support.ports import Recorder, cancel, process
from tests.support.sim.loop import on_a_warped_clock

LATENCY_S = 0.5


def two_ports() -> tuple[MemoryPort, MemoryPort, Recorder, Recorder]:
    network = MemoryNetwork(LATENCY_S)
    server = network.port(process("server", 7), "mem://server")
    client = network.port(process("client", 8), "mem://client")
    served, heard = Recorder(answer=True), Recorder()
    server.start(served)
    client.start(heard)
    return server, client, served, heard


@on_a_warped_clock
async def test_each_hop_takes_the_networks_latency() -> None:
    _server, client, served, heard = two_ports()
    now = asyncio.get_running_loop().time
    link = client.connect("mem://server")
    await heard.until(lambda: heard.ups == 1)
    assert now() == pytest.approx(LATENCY_S)
    link.send(cancel(1))
    await served.until(lambda: bool(served.messages))
    assert now() == pytest.approx(2 * LATENCY_S)
    await heard.until(lambda: bool(heard.messages))
    assert now() == pytest.approx(3 * LATENCY_S)


@on_a_warped_clock
async def test_what_is_on_its_way_dies_with_either_end() -> None:
    server, client, served, heard = two_ports()
    link = client.connect("mem://server", server.me)
    await heard.until(lambda: heard.ups == 1)
    link.send(cancel(1))
    server.close()
    await asyncio.sleep(2)
    assert served.messages == heard.messages == []
    assert heard.downs == [link]


@on_a_warped_clock
async def test_a_reply_to_a_link_that_was_closed_is_lost() -> None:
    _server, client, served, heard = two_ports()
    link = client.connect("mem://server")
    await heard.until(lambda: heard.ups == 1)
    link.send(cancel(1))
    await served.until(lambda: bool(served.messages))
    link.close()
    await asyncio.sleep(2)
    assert heard.messages == []
    assert served.last is not None
    assert not served.last.send(cancel(2))


@on_a_warped_clock
async def test_what_cannot_travel_cannot_be_sent_here_either() -> None:
    @dataclass(frozen=True)
    class Private:
        pass

    _server, client, _served, heard = two_ports()
    link = client.connect("mem://server")
    await heard.until(lambda: heard.ups == 1)
    with pytest.raises(KeyError):
        link.send(cast("Message", Private()))


@on_a_warped_clock
async def test_deaths_are_told_in_the_order_in_which_links_were_made() -> None:
    server, client, _served, heard = two_ports()
    links: list[Link] = [client.connect("mem://server", server.me) for _ in range(50)]
    await heard.until(lambda: heard.ups == 50)
    server.close()
    assert heard.downs == links


@on_a_warped_clock
async def test_a_closed_link_is_forgotten_by_the_other_end() -> None:
    server, client, _served, heard = two_ports()
    for _ in range(10):
        client.connect("mem://server", server.me).close()
    kept = client.connect("mem://server", server.me)
    await heard.until(lambda: heard.ups == 1)
    assert list(server.accepted) == [kept]
    server.close()
    assert heard.downs == [kept]


@on_a_warped_clock
async def test_the_dead_say_and_hear_nothing() -> None:
    _server, client, served, heard = two_ports()
    link = client.connect("mem://server")
    await heard.until(lambda: heard.ups == 1)
    client.close()
    client.close()
    assert not link.send(cancel(1))
    await asyncio.sleep(2)
    assert served.messages == []
    assert heard.downs == []
