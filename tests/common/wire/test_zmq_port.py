"""What only a network can do to a port: forged frames, full queues, successors."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import zmq

from common.domain.errors import ProtocolError
from common.domain.ids import Incarnation, ProcessId
from common.wire.codec import MAX_MESSAGE_BYTES, Codec
from common.wire.envelope import ANYBODY, routing_id, seal
from common.wire.messages import TAGS, Submit
from common.wire.zmq_port import OUTBOX, REFUSED, ZmqPort
from tests.support.ports import Recorder, cancel, process
from tests.support.wire_values import sample

CODEC = Codec(TAGS)
SERVER = process("server", 7)
BAD = b"\xc1 no message"


@pytest.fixture
def make_port(tmp_path: Path) -> Iterator[Callable[[str, int], ZmqPort]]:
    made: list[ZmqPort] = []

    def make(name: str, incarnation: int) -> ZmqPort:
        made.append(ZmqPort(process(name, incarnation), f"ipc://{tmp_path}/{name}"))
        return made[-1]

    yield make
    for port in made:
        port.close()


class Stranger:
    """A socket that sends whatever it likes."""

    def __init__(self, port: ZmqPort, me: ProcessId, identity: bytes | None = None) -> None:
        self._context = zmq.Context()
        self.me = me
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.sndtimeo = 2_000
        self.socket.setsockopt(zmq.IDENTITY, identity or routing_id(me, "stranger"))
        self.socket.connect(port.address)

    def say(self, *frames: bytes) -> None:
        self.socket.send_multipart(frames)

    def say_properly(self, number: int, receiver: Incarnation = SERVER.incarnation) -> None:
        self.say(seal(self.me.incarnation, receiver), CODEC.encode(cancel(number)))

    async def hear(self) -> list[bytes]:
        async with asyncio.timeout(2):
            while not self.socket.poll(0):
                await asyncio.sleep(0.002)
        return self.socket.recv_multipart()

    def __enter__(self) -> "Stranger":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close(0)
        self._context.term()


GOOD = CODEC.encode(cancel(1))
TO_US = seal(Incarnation(66), SERVER.incarnation)


@pytest.mark.parametrize(
    "frames",
    [
        (TO_US, BAD),
        (TO_US, GOOD[:-1]),
        (TO_US, b""),
        (b"", GOOD),
        (TO_US[:-1], GOOD),
        (seal(Incarnation(67), SERVER.incarnation), GOOD),
        (GOOD,),
        (TO_US, GOOD, GOOD),
    ],
    ids=["bytes", "cut", "empty", "no envelope", "half envelope", "other life", "one", "three"],
)
async def test_a_bad_frame_costs_its_sender_the_connection_and_nobody_else_theirs(
    make_port: Callable[[str, int], ZmqPort], frames: tuple[bytes, ...]
) -> None:
    server, client = make_port("server", 7), make_port("client", 8)
    served = Recorder()
    server.start(served)
    client.start(Recorder())
    good = client.connect(server.address, SERVER)
    good.send(cancel(1))
    await served.until(lambda: served.messages == [cancel(1)])
    with Stranger(server, process("evil", 66)) as stranger:
        stranger.say_properly(2)
        await served.until(lambda: len(served.messages) == 2)
        stranger.say(*frames)
        stranger.say_properly(3)
        while not server.bad_frames:
            await asyncio.sleep(0.002)
        good.send(cancel(4))
        await served.until(lambda: cancel(4) in served.messages)
    assert served.messages == [cancel(1), cancel(2), cancel(4)]
    assert server.bad_frames == 1


async def test_a_sender_that_is_no_longer_heard_is_told(
    make_port: Callable[[str, int], ZmqPort],
) -> None:
    server, client = make_port("server", 7), make_port("client", 8)
    server.start(Recorder())
    heard = Recorder()
    client.start(heard)
    link = client.connect(server.address, SERVER)
    link.send(cancel(1))
    await heard.until(lambda: heard.ups == 1)
    link._socket.send_multipart([seal(Incarnation(8), SERVER.incarnation), BAD])  # type: ignore[attr-defined]
    await heard.until(lambda: heard.downs == [link])
    assert not link.send(cancel(2))


async def test_a_stranger_without_a_proper_identity_is_not_heard(
    make_port: Callable[[str, int], ZmqPort],
) -> None:
    server = make_port("server", 7)
    served = Recorder()
    server.start(served)
    with Stranger(server, process("evil", 66), identity=b"evil") as stranger:
        stranger.say_properly(1)
        while not server.bad_frames:
            await asyncio.sleep(0.002)
    assert served.messages == []


async def test_over_size_frames_do_not_arrive_and_others_go_on(
    make_port: Callable[[str, int], ZmqPort],
) -> None:
    server, client = make_port("server", 7), make_port("client", 8)
    served = Recorder()
    server.start(served)
    client.start(Recorder())
    link = client.connect(server.address, SERVER)
    with pytest.raises(ProtocolError, match="too large"):
        link.send(replace(sample(Submit), prompt=bytes(MAX_MESSAGE_BYTES)))
    with Stranger(server, process("evil", 66)) as stranger:
        stranger.say(TO_US, bytes(MAX_MESSAGE_BYTES + 1))
        large = replace(sample(Submit), prompt=bytes(MAX_MESSAGE_BYTES - 1_000))
        link.send(large)
        await served.until(lambda: len(served.messages) == 1)
    assert served.messages == [large]


async def test_a_message_for_another_life_is_refused_and_its_sender_told(
    make_port: Callable[[str, int], ZmqPort],
) -> None:
    server = make_port("server", 7)
    served = Recorder()
    server.start(served)
    with Stranger(server, process("client", 8)) as stranger:
        stranger.say_properly(1, Incarnation(6))
        envelope, refusal = await stranger.hear()
        assert envelope == seal(SERVER.incarnation, Incarnation(8))
        assert refusal == REFUSED
        stranger.say_properly(2, ANYBODY)
        stranger.say_properly(3)
        await served.until(lambda: len(served.messages) == 2)
    assert served.messages == [cancel(2), cancel(3)]
    assert server.bad_frames == 0


async def test_what_waits_for_a_peer_is_bounded_and_in_order(
    make_port: Callable[[str, int], ZmqPort],
) -> None:
    server, client = make_port("server", 7), make_port("client", 8)
    client.start(Recorder(greeting=cancel(0)))
    link = client.connect(server.address)
    sent = [link.send(cancel(number)) for number in range(1, OUTBOX + 3)]
    assert sent == [True] * OUTBOX + [False] * 2
    served = Recorder()
    server.start(served)
    await served.until(lambda: len(served.messages) == OUTBOX + 1)
    assert served.messages == [cancel(number) for number in range(OUTBOX + 1)]


class Impostor:
    """A bound ROUTER that answers everything with frames of the test's choice."""

    def __init__(self, address: str, me: ProcessId, *answers: bytes) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.sndhwm = 0
        self._socket.bind(address)
        self._me = me
        self._answers = answers
        self.identities: list[bytes] = []

    async def serve(self, until: Callable[[], bool], polls_s: float = 0.002) -> None:
        async with asyncio.timeout(5):
            while not until():
                await asyncio.sleep(polls_s)
                if self._socket.poll(0):
                    self._answer(*self._socket.recv_multipart())

    def die_when_all_is_sent(self) -> None:
        """Blocks the loop until then."""
        self._socket.close(2_000)
        self._context.term()

    def _answer(self, identity: bytes, envelope: bytes, _data: bytes) -> None:
        self.identities.append(identity)
        sender = Incarnation(int.from_bytes(envelope[:8], "little"))
        for answer in self._answers:
            self._socket.send_multipart([identity, seal(self._me.incarnation, sender), answer])

    def __enter__(self) -> "Impostor":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close(0)
        self._context.term()


async def test_thousands_of_bad_answers_end_one_link_and_nothing_after_them_is_heard(
    make_port: Callable[[str, int], ZmqPort], tmp_path: Path
) -> None:
    client = make_port("client", 8)
    heard = Recorder()
    client.start(heard)
    with Impostor(f"ipc://{tmp_path}/evil", SERVER, GOOD, *[BAD] * 3_000, GOOD) as impostor:
        link = client.connect(f"ipc://{tmp_path}/evil", SERVER)
        link.send(cancel(1))
        await impostor.serve(lambda: bool(heard.downs))
    assert heard.downs == [link]
    assert heard.messages in ([], [cancel(1)])
    assert client.bad_frames == 1
    assert not link.send(cancel(2))


async def test_all_that_a_peer_sent_before_it_died_is_heard(
    make_port: Callable[[str, int], ZmqPort], tmp_path: Path
) -> None:
    client = make_port("client", 8)
    heard = Recorder()
    client.start(heard)
    answers = [CODEC.encode(cancel(number)) for number in range(3_000)]
    with Impostor(f"ipc://{tmp_path}/mortal", SERVER, *answers) as impostor:
        link = client.connect(f"ipc://{tmp_path}/mortal", SERVER)
        link.send(cancel(1))
        await impostor.serve(lambda: bool(impostor.identities), polls_s=0.0)
        impostor.die_when_all_is_sent()
    await heard.until(lambda: heard.downs == [link])
    assert heard.messages == [cancel(number) for number in range(3_000)]


async def test_a_bare_link_dials_anew_after_a_bad_answer(
    make_port: Callable[[str, int], ZmqPort], tmp_path: Path
) -> None:
    client = make_port("client", 8)
    heard = Recorder(greeting=cancel(0))
    client.start(heard)
    with Impostor(f"ipc://{tmp_path}/evil", SERVER, BAD) as impostor:
        link = client.connect(f"ipc://{tmp_path}/evil")
        await impostor.serve(lambda: heard.ups >= 3)
    assert len(heard.downs) >= 2
    assert set(heard.downs) == {link}
    assert len(set(impostor.identities)) == len(impostor.identities)


async def test_an_address_that_is_none_is_a_protocol_error(
    make_port: Callable[[str, int], ZmqPort],
) -> None:
    client = make_port("client", 8)
    client.start(Recorder())
    for address in ("", "nonsense", "smtp://x", "tcp://127.0.0.1:http"):
        with pytest.raises(ProtocolError, match="cannot dial"):
            client.connect(address, SERVER)


async def test_a_closed_port_leaves_no_file_and_a_killed_ones_file_is_no_obstacle(
    make_port: Callable[[str, int], ZmqPort], tmp_path: Path
) -> None:
    (tmp_path / "server").touch()
    server = make_port("server", 7)
    server.start(Recorder())
    server.close()
    assert not (tmp_path / "server").exists()
