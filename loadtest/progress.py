"""What is known of a run while it goes on. Who drives it bumps counters; who shows it looks.

A chunk costs its driver one addition, nothing here looks at one. Everything else is taken from
requests that have ended, so it is late by a request's length. Seconds are those of the records.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from loadtest.metrics import lag_ms, ttft_ms
from loadtest.record import Outcome, Record

WINDOW_S = 5.0
"""Over which "now" is averaged."""
KEPT = 500
"""Latest requests whose latencies are shown."""


@dataclass(slots=True)
class LoadProgress:
    expected: int | None = None
    """Sessions or requests that are to come; None: nobody knows."""
    sent: int = 0
    finished: int = 0
    missed: int = 0
    left: int = 0
    ttft_ms: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    itl_ms: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    """Of each request the mean of its gaps between chunks: what is cheap to know."""
    lag_ms: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))

    @property
    def ended(self) -> int:
        return self.finished + self.missed + self.left

    @property
    def running(self) -> int:
        return self.sent - self.ended


@dataclass(frozen=True, slots=True)
class Speed:
    """Each a second, over the last WINDOW_S."""

    sent: float
    ended: float
    chunks: float


class Progress:
    """Of one run."""

    def __init__(self, title: str, expected: Mapping[str, int | None], last_s: float = 0.0) -> None:
        """`last_s` is when the last request is to be sent; 0: nobody knows."""
        self.title = title
        self.last_s = last_s
        self.loads = {load: LoadProgress(count) for load, count in expected.items()}
        self.chunks = 0
        self.last_error = ""
        self._seen: deque[tuple[float, int, int, int]] = deque()

    def chunk(self) -> None:
        """One with content came."""
        self.chunks += 1

    def sent(self, load: str) -> None:
        self._load(load).sent += 1

    def ended(self, record: Record) -> None:
        load = self._load(record.load)
        match record.outcome:
            case Outcome.FINISHED:
                load.finished += 1
            case Outcome.LEFT:
                load.left += 1
            case Outcome.REJECTED | Outcome.FAILED | Outcome.CUT:
                load.missed += 1
                self.last_error = record.error
        load.lag_ms.append(lag_ms(record))
        ttft = ttft_ms(record)
        if ttft is not None:
            load.ttft_ms.append(ttft)
            gaps = len(record.chunks_s) - 1
            if gaps:
                span_s = record.chunks_s[-1] - record.chunks_s[0]
                load.itl_ms.append(span_s * 1e3 / gaps)

    def _load(self, name: str) -> LoadProgress:
        """Also of one that nobody announced, as a warm-up."""
        return self.loads.setdefault(name, LoadProgress())

    @property
    def total_sent(self) -> int:
        return sum(load.sent for load in self.loads.values())

    @property
    def total_ended(self) -> int:
        return sum(load.ended for load in self.loads.values())

    def speed(self, now_s: float) -> Speed:
        """Since the look at least WINDOW_S ago, or the first one. Looks are remembered."""
        seen = (now_s, self.total_sent, self.total_ended, self.chunks)
        self._seen.append(seen)
        while len(self._seen) > 2 and self._seen[1][0] <= now_s - WINDOW_S:
            self._seen.popleft()
        then_s, sent, ended, chunks = self._seen[0]
        elapsed = now_s - then_s
        if elapsed <= 0:
            return Speed(0.0, 0.0, 0.0)
        return Speed(
            sent=(seen[1] - sent) / elapsed,
            ended=(seen[2] - ended) / elapsed,
            chunks=(seen[3] - chunks) / elapsed,
        )

    def share_done(self) -> float | None:
        """Of requests that are to end; None: nobody knows."""
        expected = [load.expected for load in self.loads.values()]
        known = [count for count in expected if count is not None]
        if not known or len(known) < len(expected):
            return None
        return min(1.0, self.total_ended / max(1, sum(known)))

    def left_s(self, now_s: float) -> float | None:
        """Until the last request is sent, by the schedule; else as the share that is done tells.
        None: nobody knows."""
        if self.last_s:
            return max(0.0, self.last_s - now_s)
        share = self.share_done()
        if not share or now_s <= 0:
            return None
        return now_s / share - now_s


def percentiles(values: deque[float]) -> tuple[float, float]:
    """P50 and P90; NaN of nothing."""
    if not values:
        return math.nan, math.nan
    p50, p90 = np.percentile(np.asarray(values), (50, 90))
    return float(p50), float(p90)
