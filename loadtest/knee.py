"""What a sweep over rates shows: its curve, and the knee, the highest rate that is kept up with.

A rate is kept up with when both hold:
- Served is at least 95 % of offered, in finished requests a second: the common sign of saturation
  (vllm-project/guidellm#552 proposes 98 %). Both rates are over the middle 80 % of what came and of
  what ended, so neither draining nor how many the arrivals happened to bring is held against the
  server. At 60 requests that is still noisy, at 200 it holds up to four fifths of capacity.
- TTFT is at most 2 times the lowest rate's at P50 and 3 times at P90: how much slower than without
  contention Splitwise (ISCA 2024, its SLOs) lets it become. A queue shows here first.

One noisy run must not move the knee far: it is the rate that parts kept up from not kept up with
the fewest exceptions, the lower of equals, and the exceptions are named. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadtest.errors import LoadTestError
from loadtest.measurement import ALL, Measurement
from loadtest.metrics import Distribution
from loadtest.record import Outcome, Record

SERVED_SHARE = 0.95
P50_FACTOR = 2.0
P90_FACTOR = 3.0


@dataclass(frozen=True, slots=True)
class Point:
    """One rate of the curve. TTFT in milliseconds; None: there was no content."""

    rate: float
    served_share: float
    """Finished requests a second over offered ones; about 1 where it keeps up."""
    ttft_p50_ms: float | None
    ttft_p90_ms: float | None
    output_tokens_s: float | None
    """None: the server does not count."""


@dataclass(frozen=True, slots=True)
class Knee:
    rate: float | None
    """None: not even the lowest rate is kept up with."""
    is_bound: bool
    """No measured rate is above the knee, so it may be higher."""
    points: tuple[Point, ...]
    """The curve, by rate."""
    troubles: tuple[str, ...]
    """Of each point: why it is not kept up with; empty where it is."""
    exceptions: tuple[float, ...]
    """Rates on the wrong side of the knee."""

    @property
    def why(self) -> str:
        """Why it is not higher."""
        if self.is_bound:
            return "no higher rate was measured"
        above = [
            f"at {point.rate:g}: {trouble}"
            for point, trouble in zip(self.points, self.troubles, strict=True)
            if trouble and (self.rate is None or point.rate > self.rate)
        ]
        return above[0]


def point(measurement: Measurement) -> Point:
    """Of all loads together. Raises LoadTestError for a measurement at no rate."""
    if measurement.rate is None:
        raise LoadTestError("a sweep is over rates, and this measurement was made at none")
    loads = measurement.loads()
    measures = loads[ALL] if ALL in loads else next(iter(loads.values()))
    ttft: Distribution | None = measures.distributions.get("ttft_ms")
    return Point(
        rate=measurement.rate,
        served_share=served_share(measurement.counted),
        ttft_p50_ms=ttft.p50 if ttft else None,
        ttft_p90_ms=ttft.p90 if ttft else None,
        output_tokens_s=measures.output_tokens_s,
    )


def served_share(records: Sequence[Record]) -> float:
    """Requests that the client left on purpose count on neither side."""
    judged = [record for record in records if record.outcome is not Outcome.LEFT]
    finished = [record for record in judged if record.outcome is Outcome.FINISHED]
    if not finished:
        return 0.0
    offered_s = _middle_span_s([record.scheduled_s for record in judged])
    served_s = _middle_span_s([record.ended_s for record in finished])
    slowed = offered_s / served_s if served_s > 0 else 1.0
    return len(finished) / len(judged) * slowed


def _middle_span_s(moments: Sequence[float]) -> float:
    first, last = np.percentile(np.asarray(moments, dtype=np.float64), (10, 90))
    return float(last - first)


def find_knee(points: Sequence[Point]) -> Knee:
    """Of points in any order; a rate may be there more than once. Raises ValueError of none."""
    if not points:
        raise ValueError("a curve has at least one point")
    curve = tuple(sorted(points, key=lambda point: point.rate))
    troubles = tuple(trouble(point, curve[0]) for point in curve)

    def wrong_of(rate: float) -> list[float]:
        pairs = zip(curve, troubles, strict=True)
        return [point.rate for point, text in pairs if bool(text) == (point.rate <= rate)]

    below = 0.0
    rates = list(dict.fromkeys(point.rate for point in curve))
    rate = min([below, *rates], key=lambda rate: (len(wrong_of(rate)), rate))
    return Knee(
        rate=rate if rate > below else None,
        is_bound=rate == rates[-1],
        points=curve,
        troubles=troubles,
        exceptions=tuple(dict.fromkeys(wrong_of(rate))),
    )


def trouble(point: Point, lowest: Point) -> str:
    """Why the rate is not kept up with, beside the lowest; empty: it is."""
    if point.served_share < SERVED_SHARE:
        return f"served {point.served_share:.0%} of what was offered"
    for name, found, base, factor in (
        ("P50", point.ttft_p50_ms, lowest.ttft_p50_ms, P50_FACTOR),
        ("P90", point.ttft_p90_ms, lowest.ttft_p90_ms, P90_FACTOR),
    ):
        if found is not None and base is not None and found > factor * base:
            return f"TTFT {name} of {found:.0f} ms, {found / base:.1f} times the lowest rate's"
    return ""
