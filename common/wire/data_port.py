"""Sockets of the data plane: a ROUTER thread at the holder, DEALERs at the readers.

Block bytes are never copied here: the holder's memory is handed to ZeroMQ as it is and received
straight into the reader's memory. A reader asks for little at a time, so what is under way is
bounded by its own requests, and the holder's queue to one peer by the high-water mark. LINGER 0
everywhere: what a dead transfer left behind is dropped.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence

import zmq

from common.domain.errors import ProtocolError
from common.wire.data import (
    MAX_BLOCKS_AT_ONCE,
    BlockReply,
    BlockRequest,
    decode_reply,
    decode_request,
    encode_reply,
    encode_request,
)

REPLY_BYTES = 4 * 1024 * 1024
"""A reply of several blocks has at most this many bytes; one block may have more."""
HIGH_WATER = 16
MAX_REQUEST_BYTES = 64 + 8 * MAX_BLOCKS_AT_ONCE
MAX_FRAME_BYTES = 256 * 1024 * 1024
MAX_BANNED = 1024

Answer = Callable[[BlockRequest], Sequence[memoryview | None]]


class DataServer:
    """Answers block requests on a thread of its own until closed."""

    def __init__(self, address: str, answer: Answer) -> None:
        """Binds at once; raises OSError if it cannot. `answer` runs on the server's thread and
        gives one view, or None, for each block asked for; the views must stay valid and unmoved."""
        self._answer = answer
        self._banned: set[bytes] = set()
        self.bad_frames = 0
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.sndhwm = self._socket.rcvhwm = HIGH_WATER
        self._socket.setsockopt(zmq.MAXMSGSIZE, MAX_REQUEST_BYTES)
        self._socket.setsockopt(zmq.HANDSHAKE_IVL, 2_000)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        try:
            if address.startswith("ipc://"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(address.removeprefix("ipc://"))
            self._socket.bind(address)
        except zmq.ZMQError as error:
            self._socket.close()
            self._context.term()
            raise OSError(error.errno, f"cannot bind {address}: {error.strerror}") from None
        self.address = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._thread = threading.Thread(target=self._serve, name="frames", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with self._socket:
            while True:
                try:
                    identity, *frames = self._socket.recv_multipart()
                except zmq.ContextTerminated:
                    return
                if identity not in self._banned:
                    self._handle(identity, frames)

    def _handle(self, identity: bytes, frames: list[bytes]) -> None:
        try:
            if len(frames) != 1:
                raise ProtocolError("wrong number of frames")
            request = decode_request(frames[0])
            if len(request.slots) > 1 and len(request.slots) * request.length > REPLY_BYTES:
                raise ProtocolError("asks for too much at once")
        except ProtocolError:
            self.bad_frames += 1
            if len(self._banned) >= MAX_BANNED:
                self._banned.clear()
            self._banned.add(identity)
            return
        blocks = self._answer(request)
        head = encode_reply(BlockReply(request.number, tuple(view is not None for view in blocks)))
        message: list[bytes | memoryview] = [identity, head]
        message += [view for view in blocks if view is not None]
        # EAGAIN: it does not read. EHOSTUNREACH: it is gone. Either way it will see a miss.
        with contextlib.suppress(zmq.ZMQError):
            self._socket.send_multipart(message, zmq.NOBLOCK, copy=False)

    def close(self) -> None:
        """Idempotent. Returns when the thread has ended and no view is in use."""
        self._context.term()
        self._thread.join()
        if self.address.startswith("ipc://"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.address.removeprefix("ipc://"))


class DataClient:
    """One connection to one DataServer, used by one thread at a time."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket

    def ask(self, request: BlockRequest) -> None:
        """Raises TimeoutError when the holder cannot be reached."""
        try:
            self._socket.send(encode_request(request))
        except zmq.Again:
            raise TimeoutError("the holder cannot be reached") from None

    def receive(self, wanted: Mapping[int, Sequence[memoryview]]) -> BlockReply:
        """The next reply, its blocks received into `wanted[number]` by position. Raises
        TimeoutError after a time without one, ProtocolError on anything not asked for; the client
        must be closed after either."""
        try:
            reply = decode_reply(self._socket.recv())
        except zmq.Again:
            raise TimeoutError("no progress") from None
        targets = wanted.get(reply.number)
        if targets is None or len(targets) != len(reply.found):
            raise ProtocolError("a reply that nobody asked for")
        for target, found in zip(targets, reply.found, strict=True):
            if found:
                self._receive_block(target)
        if self._socket.getsockopt(zmq.RCVMORE):
            raise ProtocolError("more blocks than announced")
        return reply

    def _receive_block(self, target: memoryview) -> None:
        if not self._socket.getsockopt(zmq.RCVMORE):
            raise ProtocolError("fewer blocks than announced")
        if self._socket.recv_into(target) != len(target):
            raise ProtocolError("a block of another length")

    def close(self) -> None:
        self._socket.close(0)


class DataDialer:
    """Makes clients; they share one ZeroMQ context."""

    def __init__(self, patience_s: float) -> None:
        """`patience_s`: how long a client waits for progress."""
        self._patience_ms = int(patience_s * 1000)
        self._context = zmq.Context()

    def dial(self, address: str) -> DataClient:
        """Raises ProtocolError on an address that is none."""
        socket = self._context.socket(zmq.DEALER)
        socket.linger = 0
        socket.sndhwm = socket.rcvhwm = HIGH_WATER
        socket.rcvtimeo = socket.sndtimeo = self._patience_ms
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES)
        # Never queue for a holder that is not there: the request would be answered to nobody.
        socket.setsockopt(zmq.IMMEDIATE, 1)
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            socket.close(0)
            raise ProtocolError(f"cannot dial {address}: {error.strerror}") from None
        return DataClient(socket)

    def close(self) -> None:
        """After all its clients."""
        self._context.term()
