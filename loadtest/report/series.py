"""Which requests belong to one curve: those of one side at one rate, over all seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.measurement import Measurement
from loadtest.metrics import Targets
from loadtest.record import Record

MOST = 8
"""Steps of one scale that an eye can follow."""
MOST_HUES = 6
"""Things without an order that it can."""


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    rate: float | None
    measurements: tuple[Measurement, ...]
    """Never none."""

    @property
    def side(self) -> str:
        return self.measurements[0].side

    @property
    def records(self) -> list[Record]:
        return [record for one in self.measurements for record in one.records]

    @property
    def counted(self) -> list[Record]:
        return [record for record in self.records if record.counts]

    @property
    def targets(self) -> Targets:
        return self.measurements[0].targets


def series_of(measurements: Sequence[Measurement]) -> list[Series]:
    """In the order of the measurements; those of a search by rate. Of very many an even choice, the
    first and the last always in it."""
    grouped: dict[tuple[str, float | None], list[Measurement]] = {}
    for measurement in measurements:
        grouped.setdefault((measurement.side, measurement.rate), []).append(measurement)
    sides = list(dict.fromkeys(side for side, _rate in grouped))
    keys = sorted(grouped, key=lambda key: (sides.index(key[0]), key[1] or 0.0))
    found = [
        Series(_name(side, rate, several=len(sides) > 1), rate, tuple(grouped[side, rate]))
        for side, rate in keys
    ]
    return thinned(found)


def thinned(found: list[Series]) -> list[Series]:
    most = MOST if is_ordered(found) else MOST_HUES
    if len(found) <= most:
        return found
    return [found[round(index * (len(found) - 1) / (most - 1))] for index in range(most)]


def _name(side: str, rate: float | None, *, several: bool) -> str:
    if rate is None:
        return side
    return f"{side}, rate {rate:.3g}" if several else f"rate {rate:.3g}"


def is_ordered(found: Sequence[Series]) -> bool:
    """Whether they are steps of one scale: one side at several rates."""
    sides = {one.side for one in found}
    return len(sides) == 1 and all(one.rate is not None for one in found)
