"""The arena: one process's KV memory, which every peer may read and only its owner may write.

A memfd without a name, so the kernel frees it after any death; pre-faulted, because a fresh page
costs four times the copy into it; sealed, so that it can neither shrink under a reader nor be
mapped writable by one. It begins with one generation per slot. The owner bumps a slot's generation
*before* its bytes may change for other content; a reader copies first and looks at the generation
afterwards, so a copy that raced with a change is never believed.
"""

import fcntl
import mmap
import os

import crc32c
import numpy as np
import numpy.typing as npt

from common.domain.block import Descriptor
from common.domain.errors import ProtocolError

PAGE_BYTES = 4096
GENERATION_LIMIT = 1 << 31
"""Generations travel as int32; a slot would need years of reuse to come around."""
_SEAL_FUTURE_WRITE = 0x10
"""F_SEAL_FUTURE_WRITE of linux/fcntl.h (5.1): maps made so far stay writable, later ones not."""


def checksum(data: bytes | memoryview) -> int:
    """crc32c of `data`; lets other threads run meanwhile."""
    return crc32c.crc32c(data)


def _header_bytes(slots: int) -> int:
    return -(-slots * 8 // PAGE_BYTES) * PAGE_BYTES


def arena_bytes(slots: int, slot_bytes: int) -> int:
    """Size of the whole mapping."""
    return _header_bytes(slots) + slots * slot_bytes


class SlotMap:
    """Generations and slots over one mapping, writable or not."""

    def __init__(self, mapping: mmap.mmap, slots: int, slot_bytes: int) -> None:
        self.slots = slots
        self.slot_bytes = slot_bytes
        header = _header_bytes(slots)
        self._generations: npt.NDArray[np.uint64] = np.frombuffer(mapping, np.uint64, slots)
        self._memory = memoryview(mapping)[header : header + slots * slot_bytes]

    def view(self, slot: int) -> memoryview:
        """All bytes of one slot. Raises IndexError for a slot that does not exist."""
        if not 0 <= slot < self.slots:
            raise IndexError(f"slot {slot} of {self.slots}")
        start = slot * self.slot_bytes
        return self._memory[start : start + self.slot_bytes]

    def generation(self, slot: int) -> int:
        if not 0 <= slot < self.slots:
            raise IndexError(f"slot {slot} of {self.slots}")
        return int(self._generations[slot])

    def _let_go(self) -> None:
        """The mapping itself goes with the last view that somebody still holds."""
        self.slots = 0
        self._memory = memoryview(b"")
        self._generations = np.empty(0, np.uint64)


class Arena(SlotMap):
    """The owner's side. Not thread-safe in `bump`; one thread decides what a slot is for."""

    def __init__(self, fd: int, mapping: mmap.mmap, slots: int, slot_bytes: int) -> None:
        super().__init__(mapping, slots, slot_bytes)
        self.fd = fd

    @classmethod
    def create(cls, name: str, slots: int, slot_bytes: int) -> "Arena":
        """`slot_bytes` is a multiple of 4096. Faults in every page: a second per 1.5 GB."""
        if slots < 1 or slot_bytes < PAGE_BYTES or slot_bytes % PAGE_BYTES:
            raise ValueError(f"{slots} slots of {slot_bytes} bytes cannot be an arena")
        size = arena_bytes(slots, slot_bytes)
        fd = os.memfd_create(f"twinfleet-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, size)
            mapping = mmap.mmap(fd, size, flags=mmap.MAP_SHARED)
            np.frombuffer(mapping, np.uint8)[::PAGE_BYTES] = 0
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | _SEAL_FUTURE_WRITE
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        except OSError:
            os.close(fd)
            raise
        return cls(fd, mapping, slots, slot_bytes)

    @property
    def memory(self) -> memoryview:
        """All slots, `slots * slot_bytes` writable bytes."""
        return self._memory

    def bump(self, slot: int) -> int:
        """Begin a new content: every descriptor of the slot made so far is a miss from here on."""
        generation = (self.generation(slot) + 1) % GENERATION_LIMIT
        self._generations[slot] = generation
        return generation

    def describe(self, slot: int, length: int) -> Descriptor:
        """What a reader needs to take the first `length` bytes of the slot as they are now."""
        generation = self.generation(slot)
        return Descriptor(slot, generation, checksum(self.view(slot)[:length]))

    def reader_fd(self) -> int:
        """A new file descriptor of this arena that can only be read. The caller closes it."""
        return os.open(f"/proc/self/fd/{self.fd}", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Idempotent. Peers that have mapped the arena keep what they mapped."""
        if self.slots:
            self._let_go()
            os.close(self.fd)


class ArenaView(SlotMap):
    """A peer's arena, mapped read-only."""

    @classmethod
    def open(cls, fd: int, slots: int, slot_bytes: int) -> "ArenaView":
        """`fd` stays the caller's. Raises ProtocolError if it is no sealed memory of that size: an
        unsealed one could shrink while we read, and kill us."""
        try:
            seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
        except OSError:
            raise ProtocolError("an arena must be a memfd") from None
        size = os.fstat(fd).st_size
        if not seals & fcntl.F_SEAL_SHRINK:
            raise ProtocolError("an arena must be sealed against shrinking")
        if slots < 1 or slot_bytes < 1 or size != arena_bytes(slots, slot_bytes):
            raise ProtocolError(f"{size} bytes are not {slots} slots of {slot_bytes}")
        mapping = mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
        return cls(mapping, slots, slot_bytes)

    def close(self) -> None:
        """Idempotent. Views taken before stay readable."""
        self._let_go()
