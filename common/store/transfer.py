"""Moving blocks by pull: the receiver copies out of the holder's arena and checks what it got.

One worker thread does every copy and checksum, so the event loop never stands still for one. A
back end is chosen by where the holder is: the same host is mapped, another one sends frames. A
block that cannot be had (holder gone, slot reused, crc wrong) is a miss, never an exception and
never other bytes believed: the caller recomputes it.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, Protocol, TypeVar

from common.domain.block import ArenaRef, Descriptor
from common.store.arena import Arena
from common.store.frames import FrameReader
from common.store.shm import ShmReader

P = ParamSpec("P")
T = TypeVar("T")


class Reader(Protocol):
    """One back end, used by one thread at a time."""

    def read(
        self,
        ref: ArenaRef,
        descriptors: Sequence[Descriptor],
        length: int,
        targets: Sequence[memoryview],
    ) -> list[bool]:
        """Copy the first `length` bytes of each described slot into its target; blocks the thread.
        True: the holder's generation was still the described one after the copy and the crc32c of
        the copy is the described one. A target of a False may hold anything."""

    def close(self) -> None: ...


READERS: dict[str, Callable[[], Reader]] = {"shm": ShmReader, "frames": FrameReader}


@dataclass(slots=True)
class Moved:
    """What one back end has done since the start."""

    blocks: int = 0
    bytes: int = 0
    misses: int = 0
    seconds: float = 0.0


class Transfer:
    """The worker thread and its two back ends. `moved` counts by back end: near and far."""

    def __init__(self, host: str, near: Reader, far: Reader, executor: Executor) -> None:
        """`near` serves holders with our `host`, `far` all others. Owns readers and executor; the
        executor must run one job at a time."""
        self._host = host
        self._near = near
        self._far = far
        self._executor = executor
        self.moved = {"near": Moved(), "far": Moved()}

    @classmethod
    def open(cls, host: str, near: str = "shm", far: str = "frames") -> "Transfer":
        executor = ThreadPoolExecutor(1, thread_name_prefix="transfer")
        return cls(host, READERS[near](), READERS[far](), executor)

    async def pull(
        self,
        ref: ArenaRef,
        descriptors: Sequence[Descriptor],
        length: int,
        targets: Sequence[memoryview],
    ) -> list[bool]:
        """See Reader.read. Targets must stay reserved until this returns; when cancelled it returns
        only after the copy under way has ended, so they may be reused at once then, too."""
        if len(targets) != len(descriptors) or any(len(target) < length for target in targets):
            raise ValueError("targets do not fit the blocks they are for")
        if not descriptors:
            return []
        return await self._run(self._read, ref, descriptors, length, targets)

    async def describe(self, arena: Arena, slots: Sequence[int], length: int) -> list[Descriptor]:
        """Descriptors of committed slots; costs one checksum of each."""

        def describe() -> list[Descriptor]:
            return [arena.describe(slot, length) for slot in slots]

        return await self._run(describe)

    async def create(self, name: str, slots: int, slot_bytes: int) -> Arena:
        """Arena.create, faulted in on the worker thread."""
        return await self._run(Arena.create, name, slots, slot_bytes)

    def close(self) -> None:
        """Waits for the pull under way (two seconds at most); drops what was queued."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._near.close()
        self._far.close()

    def _read(
        self,
        ref: ArenaRef,
        descriptors: Sequence[Descriptor],
        length: int,
        targets: Sequence[memoryview],
    ) -> list[bool]:
        is_near = ref.host == self._host
        started = time.perf_counter()
        reader = self._near if is_near else self._far
        verified = reader.read(ref, descriptors, length, targets)
        moved = self.moved["near" if is_near else "far"]
        moved.seconds += time.perf_counter() - started
        moved.blocks += sum(verified)
        moved.bytes += sum(verified) * length
        moved.misses += len(verified) - sum(verified)
        return verified

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        job = self._executor.submit(work, *args, **kwargs)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            await _until_done(job)
            raise


async def _until_done(job: "Future[T]") -> None:
    """For a job that its waiter no longer wants: cancelling ends it only if it has not begun."""
    while not job.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({asyncio.wrap_future(job)})
