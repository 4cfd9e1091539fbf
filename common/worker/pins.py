"""Blocks that somebody outside the engine still reads.

The engine pins each block of a Computed event once. Several readers may want it (the decode worker
and the kvstore); it is unpinned when the last has let go.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.engine.job import Command, Unpin


@dataclass(slots=True)
class Pinned:
    """A group of blocks and how many readers it has."""

    slots: tuple[int, ...]
    readers: int


class Pins:
    """All pinned groups of one worker."""

    def __init__(self, submit: Callable[[Command], None]) -> None:
        self._submit = submit
        self.open = 0

    def hold(self, slots: Sequence[int]) -> Pinned:
        """Take over the engine's pin, with one reader."""
        self.open += len(slots)
        return Pinned(tuple(slots), readers=1)

    def share(self, pinned: Pinned) -> None:
        pinned.readers += 1

    def let_go(self, pinned: Pinned) -> None:
        pinned.readers -= 1
        if pinned.readers == 0 and pinned.slots:
            self.open -= len(pinned.slots)
            self._submit(Unpin(pinned.slots))
