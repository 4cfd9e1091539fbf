"""Reading from another host: the holder sends blocks as ZeroMQ frames over its data socket.

The holder's thread looks at epoch, slot and generation before it hands the slot's memory to the
socket; should the owner reuse the slot while it is being sent, the reader's crc finds out. The
reader has at most two replies of about 4 MB under way: one arrives while another is checked.
"""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from common.domain.block import ArenaRef, Descriptor
from common.domain.errors import ProtocolError
from common.store.arena import Arena, checksum
from common.wire.data import MAX_BLOCKS_AT_ONCE, BlockReply, BlockRequest
from common.wire.data_port import REPLY_BYTES, DataClient, DataDialer, DataServer

PATIENCE_S = 2.0
REPLIES_UNDER_WAY = 2
IDLE_S = 30.0
log = structlog.get_logger()


class FrameServer:
    """The holder's side. Close it before its arena."""

    def __init__(self, arena: Arena, epoch: int, address: str) -> None:
        """Raises OSError if `address` cannot be bound."""
        self._arena = arena
        self._epoch = epoch
        self._server = DataServer(address, self._answer)

    @property
    def address(self) -> str:
        """Where readers dial, with the port that was really bound."""
        return self._server.address

    def _answer(self, request: BlockRequest) -> list[memoryview | None]:
        if request.epoch != self._epoch or request.length > self._arena.slot_bytes:
            return [None] * len(request.slots)
        return [
            self._arena.view(slot)[: request.length]
            if slot < self._arena.slots and self._arena.generation(slot) == generation
            else None
            for slot, generation in zip(request.slots, request.generations, strict=True)
        ]

    def close(self) -> None:
        self._server.close()


@dataclass(slots=True)
class _Dialled:
    client: DataClient
    used_at: float
    requests: int = 0


class _Read:
    """One read: which parts are asked for, which have come."""

    def __init__(
        self,
        ref: ArenaRef,
        descriptors: Sequence[Descriptor],
        length: int,
        targets: Sequence[memoryview],
    ) -> None:
        self._ref = ref
        self._descriptors = descriptors
        self._length = length
        self._targets = [target[:length] for target in targets]
        step = max(1, min(REPLY_BYTES // length, MAX_BLOCKS_AT_ONCE))
        total = len(descriptors)
        self._parts = deque(range(i, min(i + step, total)) for i in range(0, total, step))
        self._asked: dict[int, range] = {}
        self._wanted: dict[int, list[memoryview]] = {}
        self.verified = [False] * total

    def run(self, dialled: _Dialled) -> None:
        """Fills `verified`. Raises TimeoutError or ProtocolError; what was verified stays so."""
        self._ask_more(dialled)
        while self._asked:
            reply = dialled.client.receive(self._wanted)
            part = self._asked.pop(reply.number)
            del self._wanted[reply.number]
            self._ask_more(dialled)
            self._check(part, reply)

    def _ask_more(self, dialled: _Dialled) -> None:
        while self._parts and len(self._asked) < REPLIES_UNDER_WAY:
            part = self._parts.popleft()
            number = self._ask(dialled, part)
            self._asked[number] = part
            self._wanted[number] = [self._targets[i] for i in part]

    def _ask(self, dialled: _Dialled, part: range) -> int:
        dialled.requests += 1
        blocks = [self._descriptors[i] for i in part]
        request = BlockRequest(
            number=dialled.requests & 0xFFFFFFFF,
            epoch=self._ref.epoch,
            length=self._length,
            slots=tuple(block.slot for block in blocks),
            generations=tuple(block.generation for block in blocks),
        )
        dialled.client.ask(request)
        return request.number

    def _check(self, part: range, reply: BlockReply) -> None:
        for i, found in zip(part, reply.found, strict=True):
            self.verified[i] = found and checksum(self._targets[i]) == self._descriptors[i].crc


class FrameReader:
    """See transfer.Reader."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        """`patience_s`: without progress for so long, what is left is a miss."""
        self._dialler = DataDialer(patience_s)
        self._dialled: dict[str, _Dialled] = {}

    def read(
        self,
        ref: ArenaRef,
        descriptors: Sequence[Descriptor],
        length: int,
        targets: Sequence[memoryview],
    ) -> list[bool]:
        reading = _Read(ref, descriptors, length, targets)
        try:
            reading.run(self._connection(ref.data_address, time.monotonic()))
        except (TimeoutError, ProtocolError) as error:
            # A late frame of this read must not find its memory in use for another one.
            self._drop(ref.data_address)
            log.warning("frames_stopped", holder=ref.holder, epoch=ref.epoch, error=str(error))
        return reading.verified

    def _connection(self, address: str, now: float) -> _Dialled:
        for known, dialled in list(self._dialled.items()):
            if now - dialled.used_at > IDLE_S:
                self._drop(known)
        if address not in self._dialled:
            self._dialled[address] = _Dialled(self._dialler.dial(address), now)
        dialled = self._dialled[address]
        dialled.used_at = now
        return dialled

    def _drop(self, address: str) -> None:
        dialled = self._dialled.pop(address, None)
        if dialled is not None:
            dialled.client.close()

    def close(self) -> None:
        for address in list(self._dialled):
            self._drop(address)
        self._dialler.close()
