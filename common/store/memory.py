"""The in-memory twin of the back ends: many processes in one interpreter, no sockets, no threads.

The simulator and unit tests give every fake process the same MemoryArenas. The same checks stand
here as in the real back ends, so a wrong generation, epoch or crc is a miss here, too.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from common.domain.block import ArenaRef, Descriptor
from common.domain.ids import ProcessId
from common.store.arena import Arena
from common.store.publish import Publication
from common.store.shm import copy_block
from common.store.transfer import Transfer

P = ParamSpec("P")
T = TypeVar("T")


class MemoryArenas:
    """Every published arena by holder and life. Also the Reader of all of them."""

    def __init__(self) -> None:
        self._arenas: dict[tuple[str, int], Arena] = {}

    def publish(self, arena: Arena, me: ProcessId, host: str = "") -> Publication:
        key = (str(me.name), int(me.incarnation))
        self._arenas[key] = arena

        def close() -> None:
            self._arenas.pop(key, None)

        ref = ArenaRef(me.name, me.incarnation, host, "", "", arena.slot_bytes, arena.slots)
        return Publication(ref, close)

    def read(
        self,
        ref: ArenaRef,
        descriptors: Sequence[Descriptor],
        length: int,
        targets: Sequence[memoryview],
    ) -> list[bool]:
        arena = self._arenas.get((ref.holder, ref.epoch))
        if arena is None or length > arena.slot_bytes:
            return [False] * len(descriptors)
        return [
            copy_block(arena, block, length, target)
            for block, target in zip(descriptors, targets, strict=True)
        ]

    def close(self) -> None:
        """A reader holds nothing; arenas belong to their publishers."""

    def transfer(self, host: str = "") -> Transfer:
        """A Transfer that does its work at once, on the loop: nothing races, a seed is a trace."""
        return Transfer(host, self, self, InlineExecutor())


class InlineExecutor(Executor):
    """Runs every job inside submit."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        job: Future[T] = Future()
        job.set_result(fn(*args, **kwargs))
        return job
