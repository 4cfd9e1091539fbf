"""Wall and CPU seconds of something done again and again.

CPU seconds are those of the process, all threads together: on a machine that others use as well
they tell how much of the wall time was waiting.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Repeats:
    """At least so many, and for at least so long: short things need more of them."""

    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Timing:
    """Medians of one repetition."""

    seconds: float
    cpu_seconds: float
    repeats: int


def measure(call: Callable[[], object], repeats: Repeats) -> Timing:
    """`call` has been warmed up by the caller where that matters."""
    walls: list[float] = []
    cpus: list[float] = []
    while len(walls) < repeats.count or sum(walls) < repeats.seconds:
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return Timing(statistics.median(walls), statistics.median(cpus), len(walls))
