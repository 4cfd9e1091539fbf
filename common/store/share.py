"""Handing an arena to the processes of one host.

The owner listens on a unix socket in the 0700 run folder. Whoever connects gets one greeting, the
arena's life and geometry with a read-only file descriptor attached (SCM_RIGHTS), and the connection
ends: the server reads nothing, so there is nothing a peer could make it wait for. A reader asks for
one life of one holder; a successor behind the same path is refused.
"""

import contextlib
import os
import socket
import struct
import threading

from common.domain.block import ArenaRef
from common.domain.errors import ProtocolError
from common.store.arena import Arena, ArenaView

OPEN_TIMEOUT_S = 2.0
RETRY_S = 0.1
_GREETING = struct.Struct("<4sQQQ")
_MAGIC = b"TFA1"


class ArenaServer:
    """A thread that greets readers until closed."""

    def __init__(self, arena: Arena, epoch: int, socket_path: str) -> None:
        """Replaces the socket of a dead predecessor. Raises OSError if the path cannot be bound."""
        self._path = socket_path
        self._fd = arena.reader_fd()
        self._greeting = _GREETING.pack(_MAGIC, epoch, arena.slots, arena.slot_bytes)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(socket_path)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(socket_path)
            os.chmod(socket_path, 0o600)
            self._listener.listen()
        except OSError:
            self._listener.close()
            os.close(self._fd)
            raise
        self._inode = os.stat(socket_path).st_ino
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="arena-share", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                # close() woke us, or the process is out of descriptors, which passes.
                if self._closing.wait(RETRY_S):
                    return
                continue
            # The reader may be gone already, and a fresh connection never blocks on 28 bytes.
            with connection, contextlib.suppress(ConnectionError):
                socket.send_fds(connection, [self._greeting], [self._fd])

    def close(self) -> None:
        """Idempotent. Takes the socket file along, unless a successor has replaced it."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        os.close(self._fd)
        with contextlib.suppress(FileNotFoundError):
            if os.stat(self._path).st_ino == self._inode:
                os.unlink(self._path)


def open_shared(ref: ArenaRef) -> ArenaView:
    """Map the arena that `ref` names. Blocks for two seconds at most. Raises OSError when nobody
    answers, ProtocolError when somebody else does or what comes is no such arena."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(OPEN_TIMEOUT_S)
        connection.connect(ref.socket_path)
        greeting, fds, _, _ = socket.recv_fds(
            connection, _GREETING.size, 1, socket.MSG_CMSG_CLOEXEC | socket.MSG_WAITALL
        )
    try:
        return _mapped(ref, greeting, fds)
    finally:
        for fd in fds:
            os.close(fd)


def _mapped(ref: ArenaRef, greeting: bytes, fds: list[int]) -> ArenaView:
    if len(greeting) != _GREETING.size or len(fds) != 1:
        raise ProtocolError("not an arena's greeting")
    magic, epoch, slots, slot_bytes = _GREETING.unpack(greeting)
    if magic != _MAGIC:
        raise ProtocolError("not an arena's greeting")
    if (epoch, slots, slot_bytes) != (ref.epoch, ref.slots, ref.slot_bytes):
        raise ProtocolError(f"{ref.holder} is in another life")
    return ArenaView.open(fds[0], slots, slot_bytes)
