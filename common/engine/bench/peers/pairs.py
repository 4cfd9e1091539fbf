"""Ours against one peer, pair by pair: whatever else the machine did, it did to both.

Pure. The ratio of a case is the median of the ratios of its pairs, above 1 where ours is better.
No seed comes twice while ours lives: it would find the prompts of an earlier peer in its cache.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from common.engine.bench.peers.cases import Case

Run = Callable[[Case, int], float | None]
"""Of a case and a seed."""


@dataclass(frozen=True, slots=True)
class Comparison:
    peer: str
    case: Case
    ours: tuple[float, ...] = field(default=())
    """Empty, as `theirs`, where the peer cannot do that."""
    theirs: tuple[float, ...] = field(default=())

    @property
    def ratio(self) -> float | None:
        if not self.ours:
            return None
        pairs = zip(self.ours, self.theirs, strict=True)
        if self.case.more_is_better:
            return statistics.median(mine / other for mine, other in pairs)
        return statistics.median(other / mine for mine, other in pairs)


def compare(
    peer: str, plan: Sequence[tuple[Case, Sequence[int]]], ours: Run, theirs: Run
) -> Iterator[Comparison]:
    """Cases with a seed for each pair. The first pair of a case warms both up and does not count;
    who goes first alternates."""
    for case, seeds in plan:
        pairs = [_pair(number, case, seed, ours, theirs) for number, seed in enumerate(seeds)][1:]
        done = [(mine, other) for mine, other in pairs if mine is not None and other is not None]
        yield Comparison(
            peer, case, tuple(mine for mine, _ in done), tuple(other for _, other in done)
        )


def _pair(
    number: int, case: Case, seed: int, ours: Run, theirs: Run
) -> tuple[float | None, float | None]:
    if number % 2 == 0:
        return ours(case, seed), theirs(case, seed)
    other = theirs(case, seed)
    return ours(case, seed), other
