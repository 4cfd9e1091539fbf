"""Goodput as DistServe defines it (OSDI 2024): the highest rate at which enough requests are served
well. Which rate to measure next, and what all of them show.

Enough is a share of all issued requests, the refused and the failed among them, that meet every
target at once. Bisection halves the ratio of the bracket's ends, as rates are ratios. It believes
each measurement, so the answer is as firm as the attainments beside it: each has its interval, and
where that contains the share asked for, another run may put the bracket's end elsewhere. Pure.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from loadtest.errors import LoadTestError
from loadtest.measurement import ALL, Measurement
from loadtest.record import Outcome
from loadtest.scenario import Search

Z_95 = 1.959964
"""Of the normal distribution, two-sided."""


def wilson(met: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a proportion by Wilson's score: it stays within 0 and 1 and is not empty
    where all or nothing met."""
    share = met / of
    weight = Z_95**2 / of
    middle = (share + weight / 2) / (1 + weight)
    half = math.sqrt(share * (1 - share) * weight + weight**2 / 4) / (1 + weight)
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


@dataclass(frozen=True, slots=True)
class Attained:
    """What one rate came to."""

    rate: float
    met: int
    judged: int

    def __post_init__(self) -> None:
        if not 0 <= self.met <= self.judged or not self.judged:
            raise ValueError(f"{self.met} of {self.judged} requests cannot meet targets")

    @property
    def attainment(self) -> float:
        return self.met / self.judged

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.met, self.judged)

    def is_clear_of(self, share: float) -> bool:
        """Whether it passed or failed by more than chance explains."""
        low, high = self.interval
        return not low <= share <= high


def attained(measurement: Measurement) -> Attained:
    """Of all loads together. Raises LoadTestError without a rate, targets or a judged request."""
    loads = measurement.loads()
    measures = loads[ALL] if ALL in loads else next(iter(loads.values()))
    judged = measures.issued - measures.outcomes[Outcome.LEFT]
    if measurement.rate is None:
        raise LoadTestError("goodput is searched by rate, and this measurement was made at none")
    if measures.attainment is None:
        raise LoadTestError(
            "goodput needs targets, and requests that the client does not leave: set targets"
        )
    return Attained(measurement.rate, round(measures.attainment * judged), judged)


class Verdict(StrEnum):
    FOUND = "found"
    BELOW_LOW = "below low"
    """Already the lowest rate failed."""
    AT_LEAST_HIGH = "at least high"
    """Even the highest rate passed."""
    OPEN = "open"
    """The search was left before its end."""


@dataclass(frozen=True, slots=True)
class Goodput:
    verdict: Verdict
    asked: float
    """The attainment that passes."""
    passed: Attained | None
    """At the bracket's lower end: the highest rate that passed."""
    failed: Attained | None
    """At its upper end: the lowest rate that failed."""
    points: tuple[Attained, ...]
    """All that was measured, by rate."""

    @property
    def rate(self) -> float | None:
        """The highest that passed: the goodput, or at least it. None: it is below low."""
        return self.passed.rate if self.passed else None

    @property
    def is_clear(self) -> bool:
        """Whether both ends of the bracket are what they are by more than chance."""
        ends = [end for end in (self.passed, self.failed) if end is not None]
        return bool(ends) and all(end.is_clear_of(self.asked) for end in ends)


class GoodputSearch:
    """Ask for `next_rate`, measure there, `observe`; over when it is None."""

    def __init__(self, search: Search) -> None:
        if search.kind != "goodput":
            raise ValueError(f"a {search.kind} is no search for goodput")
        self._search = search
        self._passed: Attained | None = None
        self._failed: Attained | None = None
        self._points: list[Attained] = []

    def next_rate(self) -> float | None:
        """The same until it is observed: the geometric middle of the bracket, of which `low` is
        expected to pass and `high` to fail. Where the bracket closed in on one of these, it is
        measured, too; else it is not, and a low rate takes the longest of all."""
        low = self._passed.rate if self._passed else self._search.low
        high = self._failed.rate if self._failed else self._search.high
        middle = low * math.sqrt(high / low)
        if high / low > 1 + self._search.precision and low < middle < high:
            return middle
        if self._passed is None and low < high:
            return low
        if self._failed is None and low < high:
            return high
        return None

    def observe(self, point: Attained) -> None:
        """Raises ValueError for a rate that was not asked for."""
        if point.rate != self.next_rate():
            raise ValueError(f"asked for rate {self.next_rate()}, not for {point.rate}")
        self._points.append(point)
        if point.attainment >= self._search.attainment:
            self._passed = point
        else:
            self._failed = point

    def result(self) -> Goodput:
        return Goodput(
            verdict=self._verdict(),
            asked=self._search.attainment,
            passed=self._passed,
            failed=self._failed,
            points=tuple(sorted(self._points, key=lambda point: point.rate)),
        )

    def _verdict(self) -> Verdict:
        if self.next_rate() is not None:
            return Verdict.OPEN
        if self._passed is None:
            return Verdict.BELOW_LOW
        return Verdict.AT_LEAST_HIGH if self._failed is None else Verdict.FOUND
