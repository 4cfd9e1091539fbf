"""Least recently used first. A heap with stale entries, so a touch costs no search."""

import heapq
from collections.abc import Set

from common.domain.ids import UnitHash

_SLACK = 64


class Lru:
    """See eviction.Eviction."""

    def __init__(self) -> None:
        self._used_at: dict[UnitHash, float] = {}
        self._heap: list[tuple[float, UnitHash]] = []

    @property
    def candidates(self) -> Set[UnitHash]:
        return self._used_at.keys()

    def enter(self, name: UnitHash, used_at: float) -> None:
        self._used_at[name] = used_at
        heapq.heappush(self._heap, (used_at, name))
        if len(self._heap) > 2 * len(self._used_at) + _SLACK:
            self._heap = [(at, block) for block, at in self._used_at.items()]
            heapq.heapify(self._heap)

    def leave(self, name: UnitHash) -> None:
        self._used_at.pop(name, None)

    def victim(self) -> UnitHash | None:
        while self._heap:
            used_at, name = self._heap[0]
            if self._used_at.get(name) == used_at:
                return name
            heapq.heappop(self._heap)
        return None
