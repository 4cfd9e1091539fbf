"""The data plane's two messages: a request for blocks and the head of its answer.

Fixed little-endian structs and packed columns, because they stand in front of megabytes and need
nothing of the control plane's codec. Both sides treat the other's bytes as untrusted: anything but
a whole message of this form is a ProtocolError.
"""

import struct
from dataclasses import dataclass

import numpy as np

from common.domain.errors import ProtocolError

MAX_BLOCKS_AT_ONCE = 4096
_REQUEST = struct.Struct("<4sIQI")
_REQUEST_MAGIC = b"TFR1"
_REPLY = struct.Struct("<4sI")
_REPLY_MAGIC = b"TFB1"


@dataclass(frozen=True, slots=True)
class BlockRequest:
    """Send the first `length` bytes of these slots, if they still hold these generations."""

    number: int
    """Chosen by the reader, modulo 2**32; the answer repeats it."""
    epoch: int
    length: int
    slots: tuple[int, ...]
    generations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlockReply:
    """One flag a requested block; the bytes of those that are there follow, a frame each."""

    number: int
    found: tuple[bool, ...]


def encode_request(request: BlockRequest) -> bytes:
    head = _REQUEST.pack(_REQUEST_MAGIC, request.number & 0xFFFFFFFF, request.epoch, request.length)
    return head + np.array([request.slots, request.generations], dtype="<u4").tobytes()


def decode_request(data: bytes) -> BlockRequest:
    blocks, rest = divmod(len(data) - _REQUEST.size, 8)
    if rest or not 1 <= blocks <= MAX_BLOCKS_AT_ONCE:
        raise ProtocolError(f"block request of {len(data)} bytes")
    magic, number, epoch, length = _REQUEST.unpack_from(data)
    if magic != _REQUEST_MAGIC or length < 1:
        raise ProtocolError("not a block request")
    slots, generations = np.frombuffer(data, "<u4", offset=_REQUEST.size).reshape(2, blocks)
    return BlockRequest(number, epoch, length, tuple(slots.tolist()), tuple(generations.tolist()))


def encode_reply(reply: BlockReply) -> bytes:
    return _REPLY.pack(_REPLY_MAGIC, reply.number) + bytes(reply.found)


def decode_reply(data: bytes) -> BlockReply:
    if len(data) < _REPLY.size:
        raise ProtocolError(f"block reply of {len(data)} bytes")
    magic, number = _REPLY.unpack_from(data)
    flags = data[_REPLY.size :]
    if magic != _REPLY_MAGIC or flags.strip(b"\0\1"):
        raise ProtocolError("not a block reply")
    return BlockReply(number, tuple(flag == 1 for flag in flags))
