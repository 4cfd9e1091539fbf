"""Time that passes when nothing else is left to do: calls, each at its moment. Pure.

Calls of one moment happen in the order in which they were asked for, so one input has one course.
"""

import heapq
from collections.abc import Callable
from itertools import count


class VirtualClock:
    def __init__(self) -> None:
        self.now = 0.0
        """Seconds since the beginning."""
        self._order = count()
        self._calls: list[tuple[float, int, Callable[[], object]]] = []

    def at(self, when_s: float, call: Callable[[], object]) -> None:
        """A moment that is past is now."""
        heapq.heappush(self._calls, (max(when_s, self.now), next(self._order), call))

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        self.at(self.now + seconds, call)

    def run(self) -> None:
        """Until nothing is asked for."""
        while self._calls:
            self.now, _order, call = heapq.heappop(self._calls)
            call()
