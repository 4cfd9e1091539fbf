"""The port over ZeroMQ: one ROUTER bound, one DEALER per link, all on the caller's event loop.

Sockets are read by poll-then-drain (one wake-up, many messages), which costs 4 us a message against
18 for an awaited receive. ZeroMQ signals its file descriptor on edges only, so every send looks at
the socket's events again. LINGER 0, MAXMSGSIZE, HWM and heartbeats are set here and nowhere else;
ROUTER_MANDATORY turns a silent drop into an error that `send` reports.
"""

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable

import structlog
import zmq
from zmq.utils.monitor import parse_monitor_message

from common.domain.errors import ProtocolError
from common.domain.ids import ProcessId
from common.wire.codec import MAX_MESSAGE_BYTES, Codec
from common.wire.envelope import ANYBODY, open_envelope, parse_routing_id, routing_id, seal
from common.wire.messages import TAGS, Message
from common.wire.port import Handler, Link

HIGH_WATER = 10_000
OUTBOX = HIGH_WATER // 2
"""Messages kept for a peer that is not there yet; with those of on_up they fit the socket."""
DRAIN_AT_ONCE = 256
REFUSED = b""
"""In place of a message: yours was for an earlier life of mine, or made no sense, and then nothing
more is heard over this connection."""
CODEC = Codec(TAGS)
log = structlog.get_logger()


def _configure(socket: zmq.Socket[bytes]) -> None:
    socket.linger = 0
    socket.sndhwm = HIGH_WATER
    socket.rcvhwm = HIGH_WATER
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
    socket.setsockopt(zmq.HANDSHAKE_IVL, 2_000)
    socket.setsockopt(zmq.HEARTBEAT_IVL, 1_000)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 10_000)


class _Drain:
    """Calls `deliver` for every message of one socket, from the loop."""

    def __init__(self, socket: zmq.Socket[bytes], deliver: Callable[[list[bytes]], None]) -> None:
        self._socket = socket
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._pending: asyncio.Handle | None = None
        self._fd = int(socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._fd, self.run)
        self.nudge()

    def nudge(self) -> None:
        """Look again: a send may have swallowed the edge that announced a message."""
        if self._pending is None and not self._socket.closed:
            self._pending = self._loop.call_soon(self.run)

    def run(self) -> None:
        """A bounded number, so that others have their turn."""
        self._pending = None
        if self._take():
            self.nudge()

    def empty(self) -> None:
        """All that has come."""
        while self._take():
            pass

    def _take(self) -> bool:
        """False: nothing is left."""
        for _ in range(DRAIN_AT_ONCE):
            if self._socket.closed:
                return False
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return False
            self._deliver(frames)
        return True

    def stop(self) -> None:
        self._loop.remove_reader(self._fd)
        if self._pending is not None:
            self._pending.cancel()


class ZmqLink:
    """A DEALER to one address, with an outbox until the handshake is through."""

    def __init__(self, port: "ZmqPort", address: str, expect: ProcessId | None) -> None:
        self._port = port
        self._address = address
        self._expect = expect
        self._answers = ANYBODY
        self._outbox: deque[list[bytes]] = deque()
        self._up = False
        self._socket = port.context.socket(zmq.DEALER)
        _configure(self._socket)
        self._socket.setsockopt(zmq.RECONNECT_IVL, 50)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1_000)
        self._monitor = self._socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECT_RETRIED
        )
        self._drain = _Drain(self._socket, self._receive)
        self._watch = _Drain(self._monitor, self._observe)
        try:
            self._dial()
        except zmq.ZMQError as error:
            self.close()
            raise ProtocolError(f"cannot dial {address}: {error.strerror}") from None

    def _dial(self) -> None:
        # A new lane each time: the peer may not have noticed yet that the last one is closed.
        self._socket.setsockopt(zmq.IDENTITY, routing_id(self._port.me, os.urandom(4).hex()))
        self._socket.connect(self._address)

    @property
    def peer(self) -> ProcessId | None:
        return self._expect

    def send(self, message: Message) -> bool:
        if self._socket.closed:
            return False
        target = self._expect.incarnation if self._expect else self._answers
        frames = [seal(self._port.me.incarnation, target), CODEC.encode(message)]
        if self._up:
            return self._push(frames)
        if len(self._outbox) >= OUTBOX:
            return False
        self._outbox.append(frames)
        return True

    def _push(self, frames: list[bytes]) -> bool:
        try:
            self._socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.Again:
            return False
        self._drain.nudge()
        return True

    def _receive(self, frames: list[bytes]) -> None:
        try:
            if len(frames) != 2:
                raise ProtocolError("wrong number of frames")
            sender, receiver = open_envelope(frames[0])
            message = CODEC.decode(frames[1]) if frames[1] != REFUSED else None
        except ProtocolError as error:
            self._port.note_bad_frame(self._expect, error)
            self._lose()
            if not self._socket.closed:
                self._socket.disconnect(self._address)
                self._dial()
            return
        if receiver != self._port.me.incarnation:
            return
        if self._expect is None:
            self._answers = sender
        elif message is None or sender != self._expect.incarnation:
            self._lose()
            return
        if message is not None:
            self._port.handler.on_message(self, message)

    def _observe(self, frames: list[bytes]) -> None:
        event = parse_monitor_message(frames)["event"]
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._up = True
            self._port.handler.on_up(self)
            while self._outbox and not self._socket.closed:
                self._push(self._outbox.popleft())
        elif self._expect is not None:
            # What the peer sent before it died still counts.
            self._drain.empty()
            self._lose()
        elif event == zmq.EVENT_DISCONNECTED:
            self._lose()

    def _lose(self) -> None:
        if self._socket.closed:
            return
        was_up, self._up = self._up, False
        self._answers = ANYBODY
        if self._expect is not None:
            # Also if it never came up: whoever gave us the address was bound to it.
            self.close()
        elif not was_up:
            return
        self._port.handler.on_down(self)

    def close(self) -> None:
        if self._socket.closed:
            return
        self._drain.stop()
        self._watch.stop()
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)
        self._outbox.clear()
        self._port.forget(self)


class _ReplyLink:
    """The way back to a process that connected to us. It has no death of its own to report."""

    def __init__(self, port: "ZmqPort", identity: bytes, peer: ProcessId) -> None:
        self._port = port
        self._identity = identity
        self.peer: ProcessId | None = peer
        self._incarnation = peer.incarnation

    def send(self, message: Message) -> bool:
        envelope = seal(self._port.me.incarnation, self._incarnation)
        return self._port.reply([self._identity, envelope, CODEC.encode(message)])

    def close(self) -> None:
        self._port.forget_reply(self._identity)


class ZmqPort:
    """One ROUTER, bound at start, and the links this process opened."""

    handler: Handler

    def __init__(self, me: ProcessId, address: str) -> None:
        self._me = me
        self._address = address
        self.context = zmq.Context()
        self._router = self.context.socket(zmq.ROUTER)
        self._links: set[ZmqLink] = set()
        self._replies: dict[bytes, _ReplyLink] = {}
        self._banned: set[bytes] = set()
        self._drain: _Drain | None = None
        self.bad_frames = 0

    @property
    def me(self) -> ProcessId:
        return self._me

    @property
    def address(self) -> str:
        return self._address

    def start(self, handler: Handler) -> None:
        self.handler = handler
        _configure(self._router)
        self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        try:
            if self._address.startswith("ipc://"):
                # A socket file left by a killed predecessor would refuse the bind.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._address.removeprefix("ipc://"))
            self._router.bind(self._address)
        except zmq.ZMQError as error:
            raise OSError(error.errno, f"cannot bind {self._address}: {error.strerror}") from None
        self._address = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        self._drain = _Drain(self._router, self._receive)

    def connect(self, address: str, expect: ProcessId | None = None) -> Link:
        link = ZmqLink(self, address, expect)
        self._links.add(link)
        return link

    def _receive(self, frames: list[bytes]) -> None:
        identity = frames[0]
        if identity in self._banned:
            return
        try:
            if len(frames) != 3:
                raise ProtocolError("wrong number of frames")
            link = self._replies.get(identity)
            if link is None:
                link = _ReplyLink(self, identity, parse_routing_id(identity))
            sender, receiver = open_envelope(frames[1])
            if link.peer is None or sender != link.peer.incarnation:
                raise ProtocolError("envelope and identity disagree")
            message = CODEC.decode(frames[2])
        except ProtocolError as error:
            self._ban(identity, error)
            return
        self._replies[identity] = link
        if receiver in (self._me.incarnation, ANYBODY):
            self.handler.on_message(link, message)
        else:
            self.reply([identity, seal(self._me.incarnation, sender), REFUSED])

    def _ban(self, identity: bytes, error: ProtocolError) -> None:
        link = self._replies.pop(identity, None)
        self.note_bad_frame(link.peer if link else None, error)
        if len(self._banned) >= HIGH_WATER:
            self._banned.clear()
        self._banned.add(identity)
        with contextlib.suppress(ProtocolError):
            sender = parse_routing_id(identity).incarnation
            self.reply([identity, seal(self._me.incarnation, sender), REFUSED])

    def note_bad_frame(self, peer: ProcessId | None, error: ProtocolError) -> None:
        self.bad_frames += 1
        log.warning("bad_frame_received", peer=str(peer), error=str(error))

    def reply(self, frames: list[bytes]) -> bool:
        if self._router.closed or self._drain is None:
            return False
        try:
            self._router.send_multipart(frames, zmq.NOBLOCK)
        except (zmq.Again, zmq.ZMQError):
            # EAGAIN: it reads too slowly. EHOSTUNREACH: it is gone.
            self._replies.pop(frames[0], None)
            return False
        self._drain.nudge()
        return True

    def forget(self, link: ZmqLink) -> None:
        self._links.discard(link)

    def forget_reply(self, identity: bytes) -> None:
        self._replies.pop(identity, None)

    def close(self) -> None:
        for link in list(self._links):
            link.close()
        if self._drain is not None:
            self._drain.stop()
        self._router.close(0)
        self.context.term()
        if self._address.startswith("ipc://"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._address.removeprefix("ipc://"))
