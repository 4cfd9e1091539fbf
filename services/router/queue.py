"""Attempts that wait for room: bounded, by priority (lower first), then by arrival.

An attempt that a worker refused goes back to the place it had, which is the head of its priority
unless somebody more urgent came meanwhile; so going back is never refused for want of space.
"""

from bisect import bisect_left, insort

from common.domain.errors import Overloaded
from common.domain.ids import AttemptKey
from services.router.lifecycle import Record


class AttemptQueue:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._order: list[tuple[int, int, AttemptKey]] = []
        self._waiting: dict[AttemptKey, Record] = {}
        self._places: dict[AttemptKey, int] = {}
        """Arrival numbers, kept until the attempt is forgotten."""
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, record: Record) -> None:
        """Raises Overloaded when full."""
        if len(self._waiting) >= self._limit:
            raise Overloaded(f"{len(self._waiting)} requests wait already")
        self._arrivals += 1
        self._places[record.submit.key] = self._arrivals
        self._enter(record)

    def put_back(self, record: Record) -> None:
        self._enter(record)

    def head(self) -> Record | None:
        """The next to be placed; it stays until `leave`."""
        return self._waiting[self._order[0][2]] if self._order else None

    def leave(self, key: AttemptKey) -> None:
        record = self._waiting.pop(key, None)
        if record is not None:
            del self._order[bisect_left(self._order, self._place(record))]

    def forget(self, key: AttemptKey) -> None:
        """It will not come back."""
        self.leave(key)
        self._places.pop(key, None)

    def expired(self, now: float) -> list[Record]:
        return [
            record
            for record in self._waiting.values()
            if record.deadline_at is not None and now >= record.deadline_at
        ]

    def waiting(self) -> list[Record]:
        return list(self._waiting.values())

    def _enter(self, record: Record) -> None:
        self._waiting[record.submit.key] = record
        insort(self._order, self._place(record))

    def _place(self, record: Record) -> tuple[int, int, AttemptKey]:
        key = record.submit.key
        return (record.submit.priority, self._places[key], key)
