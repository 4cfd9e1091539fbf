"""The frame in front of every message: who sends it in which life, and for which life it is meant.

A message queued for a process that died must not reach its successor: the receiver compares the
incarnation it is meant for with its own. 0 means "whoever you are", allowed on the first messages
of a link to a bare address.
"""

import struct

from common.domain.errors import ProtocolError
from common.domain.ids import Incarnation, ProcessId, ProcessName

_HEAD = struct.Struct("<QQ")
ANYBODY = Incarnation(0)


def seal(sender: Incarnation, receiver: Incarnation) -> bytes:
    return _HEAD.pack(sender, receiver)


def open_envelope(frame: bytes) -> tuple[Incarnation, Incarnation]:
    """(sender, receiver). Raises ProtocolError."""
    if len(frame) != _HEAD.size:
        raise ProtocolError("broken envelope")
    sender, receiver = _HEAD.unpack(frame)
    return Incarnation(sender), Incarnation(receiver)


def routing_id(process: ProcessId, lane: str = "") -> bytes:
    """ZeroMQ identity of one connecting socket; `lane` tells several sockets of a process apart."""
    return f"{process.name}/{process.incarnation:016x}/{lane}".encode()


def parse_routing_id(raw: bytes) -> ProcessId:
    """Raises ProtocolError."""
    try:
        name, incarnation, _lane = raw.decode().split("/")
        return ProcessId(ProcessName(name), Incarnation(int(incarnation, 16)))
    except ValueError:
        raise ProtocolError("identity of an unknown form") from None
