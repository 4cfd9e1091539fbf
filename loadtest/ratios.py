"""Statistics of pairs: how one side's figure relates to another's, and how sure that is.

Both sides of a pair are measured with the same seed, one soon after the other, so what changes
from pair to pair (the seed's requests, the machine's mood) cancels in the ratio. Ratios multiply,
so their mean is geometric and Student's t interval is that of their logarithms. A pair in which a
value is missing, not finite, zero or negative has no ratio: it is left out and counted. Pure.
"""

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from loadtest.measurement import better

CONFIDENCE = 0.95
_LARGEST_LOG = math.log(sys.float_info.max)


class Shown(StrEnum):
    """What the interval says of the first side."""

    BETTER = "better"
    WORSE = "worse"
    DIFFERENT = "different"
    """Which of the two is better nobody can say."""
    NO_DIFFERENCE = "no difference shown"
    """The interval contains 1, or there is no interval."""


@dataclass(frozen=True, slots=True)
class RatioResult:
    """One figure of one side over another's."""

    name: str
    ratios: tuple[float, ...]
    """Of the pairs that have one, in the order of the pairs."""
    mean: float | None
    """Geometric; None: no pair has a ratio."""
    interval: tuple[float, float] | None
    """95 % confidence of the mean; None below two ratios."""
    median: float | None
    left_out: int = 0
    """Pairs without a ratio."""
    lost: int = 0
    """Of those: it had none of what more is better of, or some of what the other had none of."""
    won: int = 0
    """Of those: the same the other way round."""

    @property
    def pairs(self) -> int:
        return len(self.ratios)

    @property
    def shown(self) -> Shown:
        if self.mean is None or self.interval is None:
            return Shown.NO_DIFFERENCE
        low, high = self.interval
        if low <= 1 <= high:
            return Shown.NO_DIFFERENCE
        match better(self.name, self.mean):
            case None:
                return Shown.DIFFERENT
            case True:
                return Shown.BETTER
            case False:
                return Shown.WORSE

    def is_worse_by(self, share: float) -> bool:
        """By more than `share` of the other's and beyond chance. Of one pair there is no interval,
        and the ratio alone decides. Where the lost pairs have none, every pair must be worse."""
        if self.lost:
            worse = sum(better(self.name, ratio) is False for ratio in self.ratios)
            return self.lost + worse == self.pairs + self.left_out
        if self.mean is None or better(self.name, self.mean) is not False:
            return False
        by = self.mean - 1 if self.mean > 1 else 1 - self.mean
        return by > share and (self.interval is None or self.shown is Shown.WORSE)


Values = tuple[float | None, float | None]
"""A figure in one pair: of the side, and of the one it is held against."""


def ratio_of(name: str, values: Sequence[Values]) -> RatioResult:
    found = [_ratio(side, against) for side, against in values]
    ratios = tuple(ratio for ratio in found if ratio is not None)
    rest = [pair for pair, ratio in zip(values, found, strict=True) if ratio is None]
    logs = [math.log(ratio) for ratio in ratios]
    return RatioResult(
        name=name,
        ratios=ratios,
        mean=math.exp(math.fsum(logs) / len(logs)) if logs else None,
        interval=_interval(logs),
        median=statistics.median(ratios) if ratios else None,
        left_out=len(rest),
        lost=sum(_one_has_none(name, pair) is False for pair in rest),
        won=sum(_one_has_none(name, pair) is True for pair in rest),
    )


def _ratio(side: float | None, against: float | None) -> float | None:
    if side is None or against is None or not 0 < side < math.inf or not 0 < against < math.inf:
        return None
    ratio = side / against
    return ratio if 0 < ratio < math.inf else None


def _one_has_none(name: str, pair: Values) -> bool | None:
    """Whether the side is the better one, where one of the two is exactly 0; None: it is not so."""
    side, against = pair
    if side == 0 and against is not None and 0 < against < math.inf:
        return better(name, 0.0)
    if against == 0 and side is not None and 0 < side < math.inf:
        return better(name, math.inf)
    return None


def _interval(logs: Sequence[float]) -> tuple[float, float] | None:
    if len(logs) < 2:
        return None
    mean = math.fsum(logs) / len(logs)
    error = statistics.stdev(logs, mean) / math.sqrt(len(logs))
    half = t_quantile((1 + CONFIDENCE) / 2, len(logs) - 1) * error
    low, high = max(mean - half, -_LARGEST_LOG), min(mean + half, _LARGEST_LOG)
    return math.exp(low), math.exp(high)


@lru_cache
def t_quantile(probability: float, freedom: int) -> float:
    """Of Student's distribution with a whole number of degrees of freedom, for a probability of at
    least a half and below 1."""
    if not 0.5 <= probability < 1 or freedom < 1:
        raise ValueError(f"no quantile for {probability} of {freedom} degrees of freedom")
    low, high = 0.0, math.pi / 2
    for _step in range(80):
        angle = (low + high) / 2
        if (1 + _within(angle, freedom)) / 2 < probability:
            low = angle
        else:
            high = angle
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _within(angle: float, freedom: int) -> float:
    """The probability between -t and t, where t is sqrt(freedom) * tan(angle): a finite sum for
    whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def order(sides: Sequence[str], pair: int) -> tuple[str, ...]:
    """In which to measure within a pair, counted from 0. As many pairs as there are sides give each
    every place once; the next so many run backwards, so that no side is always behind the same one
    and a steady drift cancels (two sides: AB BA BA AB)."""
    turn, place = divmod(pair, len(sides))
    rotated = (*sides[place:], *sides[:place])
    return rotated[::-1] if turn % 2 else rotated
