"""The heartbeat: a thread of its own, so that a busy event loop or a long step cannot silence it.

It says two things at once: the process is scheduled (the message came) and the engine moves (its
step counter). It speaks only; a silence is judged by whoever listens.
"""

import os
import threading
from collections.abc import Callable
from typing import Protocol

import zmq

from common.domain.ids import ProcessId
from common.wire.codec import Codec
from common.wire.envelope import ANYBODY, routing_id, seal
from common.wire.messages import TAGS, Pulse

PULSE_INTERVAL_S = 0.2
CODEC = Codec(TAGS)


class Heartbeat(Protocol):
    """What a service needs of it; on a virtual clock something else stands here."""

    def start(self) -> None: ...

    def listen(self, addresses: frozenset[str]) -> None:
        """Who hears us from the next beat on."""

    def stop(self) -> None: ...


MakeHeartbeat = Callable[[ProcessId, Callable[[], Pulse]], Heartbeat]


class PulseThread:
    """Sends `beat()` to every listener at a fixed interval until stopped."""

    def __init__(self, me: ProcessId, beat: Callable[[], Pulse]) -> None:
        """`beat` runs on the pulse thread: it may only read plain attributes."""
        self._me = me
        self._beat = beat
        self._wanted: frozenset[str] = frozenset()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def listen(self, addresses: frozenset[str]) -> None:
        self._wanted = addresses

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        context = zmq.Context()
        sockets: dict[str, zmq.Socket[bytes]] = {}
        while not self._stop.wait(PULSE_INTERVAL_S):
            wanted = self._wanted
            for address in [address for address in sockets if address not in wanted]:
                sockets.pop(address).close(0)
            for address in wanted:
                if address not in sockets:
                    sockets[address] = self._dial(context, address)
            frames = [seal(self._me.incarnation, ANYBODY), CODEC.encode(self._beat())]
            for socket in sockets.values():
                self._send(socket, frames)
        for socket in sockets.values():
            socket.close(0)
        context.term()

    def _dial(self, context: zmq.Context[zmq.Socket[bytes]], address: str) -> zmq.Socket[bytes]:
        socket = context.socket(zmq.DEALER)
        socket.linger = 0
        # A pulse that waited is worth nothing: never queue for a peer that is not there.
        socket.sndhwm = 2
        socket.setsockopt(zmq.IMMEDIATE, 1)
        socket.setsockopt(zmq.IDENTITY, routing_id(self._me, f"pulse-{os.urandom(4).hex()}"))
        socket.setsockopt(zmq.RECONNECT_IVL, 50)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1_000)
        socket.connect(address)
        return socket

    def _send(self, socket: zmq.Socket[bytes], frames: list[bytes]) -> None:
        try:
            socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.Again:
            return
