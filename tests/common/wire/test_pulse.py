"""The heartbeat: it goes on while the loop stands still, and to whom it is told."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.domain.peer import PeerRef, Role
from common.wire.codec import Codec
from common.wire.envelope import ANYBODY, open_envelope, parse_routing_id
from common.wire.messages import TAGS, Message, Pulse
from common.wire.port import Link
from common.wire.pulse import PulseThread
from common.wire.zmq_port import ZmqPort

ME = ProcessId(ProcessName("decode-0"), Incarnation(5))
REF = PeerRef(ME.name, ME.incarnation, Role.DECODE, "ipc://nowhere")


class Ears:
    """A bare ROUTER that a blocked event loop cannot keep from hearing."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str) -> None:
        self.address = address
        self.socket = context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.rcvtimeo = 2_000
        self.socket.bind(address)

    def hear(self) -> Pulse:
        identity, envelope, data = self.socket.recv_multipart()
        assert parse_routing_id(identity) == ME
        assert open_envelope(envelope) == (ME.incarnation, ANYBODY)
        pulse = Codec(TAGS).decode(data)
        assert isinstance(pulse, Pulse)
        return pulse

    def quiet(self, limit_ms: int) -> bool:
        while self.socket.poll(0):
            self.socket.recv_multipart()
        return not self.socket.poll(limit_ms)


@pytest.fixture
def ears(tmp_path: Path) -> Iterator[list[Ears]]:
    context = zmq.Context()
    both = [Ears(context, f"ipc://{tmp_path}/{name}") for name in ("router", "gateway")]
    yield both
    for ear in both:
        ear.socket.close(0)
    context.term()


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("common.wire.pulse.PULSE_INTERVAL_S", 0.02)


def test_every_beat_is_asked_for_anew_and_reaches_every_listener(ears: list[Ears]) -> None:
    beats = iter(range(1_000))
    pulse = PulseThread(ME, lambda: Pulse(REF, next(beats)))
    pulse.listen(frozenset(ear.address for ear in ears))
    pulse.start()
    try:
        for ear in ears:
            first, second = ear.hear(), ear.hear()
            assert first.me == REF
            assert second.steps > first.steps
    finally:
        pulse.stop()


async def test_it_beats_while_the_event_loop_stands_still(tmp_path: Path) -> None:
    port = ZmqPort(ProcessId(ProcessName("router-0"), Incarnation(1)), f"ipc://{tmp_path}/port")
    heard: list[Message] = []

    class Handler:
        def on_message(self, link: Link, message: Message) -> None:
            assert link.peer == ME
            heard.append(message)

        def on_up(self, link: Link) -> None: ...

        def on_down(self, link: Link) -> None: ...

    port.start(Handler())
    beats = iter(range(1_000))
    pulse = PulseThread(ME, lambda: Pulse(REF, next(beats)))
    pulse.listen(frozenset({port.address}))
    pulse.start()
    time.sleep(0.15)  # noqa: ASYNC251  the loop stands still
    await asyncio.sleep(0.01)
    pulse.stop()
    port.close()
    assert len(heard) >= 3


def test_who_is_no_longer_listed_hears_no_more(ears: list[Ears]) -> None:
    pulse = PulseThread(ME, lambda: Pulse(REF, 1))
    pulse.listen(frozenset(ear.address for ear in ears))
    pulse.start()
    try:
        router, gateway = ears
        gateway.hear()
        pulse.listen(frozenset({router.address}))
        router.hear()
        router.hear()
        assert gateway.quiet(80)
        router.hear()
    finally:
        pulse.stop()


def test_a_listener_that_is_not_there_gets_no_old_beats_when_it_comes(tmp_path: Path) -> None:
    beats = iter(range(1_000))
    sent = threading.Event()

    def beat() -> Pulse:
        steps = next(beats)
        if steps == 5:
            sent.set()
        return Pulse(REF, steps)

    pulse = PulseThread(ME, beat)
    address = f"ipc://{tmp_path}/late"
    pulse.listen(frozenset({address}))
    pulse.start()
    context = zmq.Context()
    try:
        assert sent.wait(2)
        late = Ears(context, address)
        assert late.hear().steps >= 5
        late.socket.close(0)
    finally:
        pulse.stop()
        context.term()


def test_stop_ends_the_thread(ears: list[Ears]) -> None:
    pulse = PulseThread(ME, lambda: Pulse(REF, 1))
    pulse.listen(frozenset({ears[0].address}))
    pulse.start()
    ears[0].hear()
    pulse.stop()
    assert ears[0].quiet(60)
    assert not [thread for thread in threading.enumerate() if thread.name == "pulse"]
