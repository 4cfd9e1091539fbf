"""One link to each life of each peer, shared by all who need it."""

import asyncio

from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.domain.peer import PeerRef, Role
from common.wire.memory_port import MemoryNetwork
from common.worker.peer_links import PeerLinks
from tests.support.ports import Recorder, cancel, process
from tests.support.sim.loop import on_a_warped_clock


class Scene:
    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.port = self.network.port(process("decode-0", 1), "mem://decode-0")
        self.lost: list[ProcessId] = []
        self.links = PeerLinks(self.port, self.lost.append)
        self.mine = Recorder()
        self.mine.on_down = lambda link: self.downs.append(self.links.on_down(link))
        self.downs: list[bool] = []
        self.port.start(self.mine)
        self.peers: dict[int, Recorder] = {}

    def peer(self, life: int) -> PeerRef:
        address = f"mem://prefill-0/{life}"
        port = self.network.port(process("prefill-0", life), address)
        self.peers[life] = Recorder()
        port.start(self.peers[life])
        return PeerRef(ProcessName("prefill-0"), Incarnation(life), Role.PREFILL, address)


@on_a_warped_clock
async def test_a_link_is_opened_once_for_each_life() -> None:
    scene = Scene()
    first, second = scene.peer(1), scene.peer(2)
    link = scene.links.to(first)
    assert scene.links.to(first) is link
    assert scene.links.to(second) is not link
    assert scene.links.peers() == [first.id, second.id]
    assert scene.links.addresses() == [first.address, second.address]
    assert scene.links.send(first.id, cancel(1))
    assert scene.links.send(second.id, cancel(2))
    await asyncio.sleep(1)
    assert scene.peers[1].messages == [cancel(1)]
    assert scene.peers[2].messages == [cancel(2)]


@on_a_warped_clock
async def test_nothing_is_sent_to_whom_there_is_no_link() -> None:
    scene = Scene()
    assert not scene.links.send(process("prefill-0", 1), cancel(1))
    assert scene.links.peers() == []


@on_a_warped_clock
async def test_a_death_is_told_once_and_the_link_forgotten() -> None:
    scene = Scene()
    first, second = scene.peer(1), scene.peer(2)
    scene.links.to(first)
    scene.links.to(second)
    await asyncio.sleep(1)
    scene.network.ports[first.address].close()
    assert scene.lost == [first.id]
    assert scene.downs == [True]
    assert scene.links.peers() == [second.id]
    assert scene.links.addresses() == [second.address]
    assert not scene.links.send(first.id, cancel(1))


@on_a_warped_clock
async def test_links_of_others_are_not_ours() -> None:
    scene = Scene()
    peer = scene.peer(1)
    bare = scene.port.connect(peer.address)
    other = scene.port.connect(peer.address, peer.id)
    mine = scene.links.to(peer)
    assert not scene.links.on_down(bare)
    assert not scene.links.on_down(other)
    assert scene.lost == []
    assert scene.links.on_down(mine)
    assert not scene.links.on_down(mine)
    assert scene.lost == [peer.id]
