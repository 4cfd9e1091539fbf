"""Links to writers, and when one counts as lost."""

from collections.abc import Mapping
from dataclasses import replace

from common.domain.ids import AttemptKey, Incarnation, ProcessId, ProcessName, RequestId
from common.domain.peer import Role
from common.wire.memory_port import MemoryNetwork
from common.wire.messages.submit import Cancel
from common.wire.messages.work import Renew
from services.gateway.writers import IDLE_S, SILENCE_S, Writers
from tests.support.gateway import Peer, until

KEY = AttemptKey(RequestId("r"), 1)


class Scene:
    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.worker = Peer(self.network, "decode-0", Role.DECODE)
        self.gateway = Peer(self.network, "gateway-0", Role.GATEWAY)
        self.writers = Writers(self.gateway.port)
        self.busy: Mapping[ProcessId, list[AttemptKey]] = {self.worker.ref.id: [KEY]}


async def test_messages_reach_a_watched_writer() -> None:
    scene = Scene()
    scene.writers.watch(scene.worker.ref, 0.0)
    scene.writers.renew(scene.busy)
    assert scene.writers.send(scene.worker.ref.id, Cancel(KEY))
    await until(lambda: len(scene.worker.heard) == 2)
    assert scene.worker.heard == [Renew((KEY,)), Cancel(KEY)]


async def test_one_link_serves_all_streams_of_a_writer() -> None:
    scene = Scene()
    scene.writers.watch(scene.worker.ref, 0.0)
    scene.writers.watch(scene.worker.ref, 1.0)
    assert len(scene.worker.port.accepted) == 1


async def test_nothing_is_sent_to_one_we_are_not_connected_to() -> None:
    scene = Scene()
    scene.writers.heard(scene.worker.ref.id, 0.0)
    assert not scene.writers.send(scene.worker.ref.id, Cancel(KEY))
    assert not scene.writers.connected(scene.worker.ref.id)


async def test_a_busy_writer_is_lost_when_it_says_nothing() -> None:
    scene = Scene()
    name = scene.worker.ref.id
    scene.writers.watch(scene.worker.ref, 0.0)
    assert scene.writers.silent(scene.busy, SILENCE_S) == []
    scene.writers.pulsed(name, 2.0)
    assert scene.writers.silent(scene.busy, 2.0 + SILENCE_S) == []
    scene.writers.heard(name, 4.0)
    assert scene.writers.silent(scene.busy, 4.1 + SILENCE_S) == [name]
    assert scene.writers.silent(scene.busy, 99.0) == []


async def test_an_idle_writer_is_never_lost_and_dropped_when_unheard() -> None:
    scene = Scene()
    scene.writers.watch(scene.worker.ref, 0.0)
    assert scene.writers.silent({}, IDLE_S - 1) == []
    assert len(scene.writers) == 1
    assert scene.writers.silent({}, IDLE_S + 1) == []
    assert len(scene.writers) == 0


async def test_a_pulse_of_a_stranger_is_no_news() -> None:
    scene = Scene()
    scene.writers.pulsed(ProcessId(ProcessName("x"), Incarnation(1)), 0.0)
    assert len(scene.writers) == 0


async def test_down_names_the_writer_once() -> None:
    scene = Scene()
    scene.writers.watch(scene.worker.ref, 0.0)
    link = next(iter(scene.worker.port.accepted))
    assert scene.writers.down(link, 1.0) == scene.worker.ref.id
    assert scene.writers.down(link, 1.0) is None


async def test_one_that_died_just_now_is_not_dialled_again_its_successor_is() -> None:
    scene = Scene()
    dead = scene.worker.ref
    assert scene.writers.watch(dead, 0.0)
    scene.writers.down(next(iter(scene.worker.port.accepted)), 1.0)
    assert not scene.writers.watch(dead, 1.0)
    assert scene.writers.watch(replace(dead, incarnation=Incarnation(2)), 1.0)
    assert scene.writers.watch(dead, 1.0 + SILENCE_S)
