"""What pairs of measurements say of two or more sides: figures, claims, answers, and whether a
pipeline should stop.

The candidate is the side in question; every other side is one that it is held against. A figure of
the headline fails a comparison only when the candidate is worse by more than is allowed and beyond
chance; a claim that is missed always fails it. Pure.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from loadtest.measurement import SERVER, Measurement
from loadtest.ratios import RatioResult, ratio_of
from loadtest.record import Outcome
from loadtest.scenario import Claim

HEADLINE = (
    "ttft_ms.p50",
    "ttft_ms.p90",
    "tpot_ms.p50",
    "e2e_ms.p50",
    "output_tokens_s",
    "attainment",
    "goodput",
    "knee",
    "misses",
)
"""Of every load, or of a search. Only these fail a comparison by themselves."""

Question = tuple[str, int]
"""Digest of a conversation, and how many tokens were asked for."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What one side came to in one pair."""

    values: Mapping[str, float]
    """By the names of measurement.py."""
    answers: Mapping[Question, str]
    """Digests of the answers that finished."""


def taken(measurement: Measurement) -> Taken:
    answers = {
        (record.asked_digest, record.asked_tokens): record.text_digest
        for record in measurement.records
        if record.outcome is Outcome.FINISHED and record.asked_digest and record.text_digest
    }
    return Taken(measurement.values(), answers)


Pair = Mapping[str, Taken]
"""By side. One that could not be measured is missing."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of greedy answers to what both sides were asked."""

    same: int
    compared: int

    @property
    def share(self) -> float:
        return self.same / self.compared


@dataclass(frozen=True, slots=True)
class Against:
    """The candidate held against one other side."""

    side: str
    figures: Mapping[str, RatioResult]
    """All that either has, by name: candidate over this side."""
    answers: Agreement | None
    """None: nothing to compare."""


@dataclass(frozen=True, slots=True)
class Checked:
    claim: Claim
    ratio: RatioResult

    @property
    def holds(self) -> bool:
        """By the geometric mean. What has no ratio does not hold."""
        return self.ratio.mean is not None and self.claim.holds(self.ratio.mean)

    @property
    def holds_firmly(self) -> bool | None:
        """For the whole interval; None: there is none."""
        if self.ratio.interval is None:
            return None
        return all(self.claim.holds(end) for end in self.ratio.interval)


@dataclass(frozen=True, slots=True)
class Comparison:
    candidate: str
    pairs: int
    against: tuple[Against, ...]
    claims: tuple[Checked, ...]
    means: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Of each side's figures over its pairs, by side."""

    @property
    def sides(self) -> tuple[str, ...]:
        return (self.candidate, *(other.side for other in self.against))

    def failures(self, fail_over: float | None) -> tuple[str, ...]:
        """A line for each figure of the headline that is worse by more than this share of the
        other's (None: none is looked at) and for each claim that is missed."""
        return (*self._worse(fail_over), *self._missed())

    def exit_code(self, fail_over: float | None) -> int:
        return 1 if self.failures(fail_over) else 0

    def _worse(self, fail_over: float | None) -> Iterator[str]:
        if fail_over is None:
            return
        for other in self.against:
            for name, ratio in other.figures.items():
                if _is_headline(name) and ratio.is_worse_by(fail_over):
                    how = "worse where there is no ratio" if ratio.lost else _told(ratio)
                    yield f"{name}: {self.candidate} over {other.side}: {how}"

    def _missed(self) -> Iterator[str]:
        for checked in self.claims:
            if not checked.holds:
                claim = checked.claim
                over = f" over {claim.against}" if claim.against else ""
                what = f"{claim.measure}, {claim.side}{over}"
                yield f"claim missed: {claim.text} ({what}: {_told(checked.ratio)})"


def _told(ratio: RatioResult) -> str:
    if ratio.mean is None:
        return "no ratio"
    if ratio.interval is None:
        return f"{ratio.mean:.3g}, of one pair"
    low, high = ratio.interval
    return f"{ratio.mean:.3g} [{low:.3g}, {high:.3g}]"


def _is_headline(name: str) -> bool:
    load, _dot, figure = name.partition(".")
    return load != SERVER and figure in HEADLINE


def compare(pairs: Sequence[Pair], candidate: str, claims: Sequence[Claim] = ()) -> Comparison:
    """Raises ValueError where the candidate was never measured."""
    sides = list(dict.fromkeys(side for pair in pairs for side in pair))
    if candidate not in sides:
        raise ValueError(f"{candidate!r} was never measured")
    others = [side for side in sides if side != candidate]
    return Comparison(
        candidate=candidate,
        pairs=len(pairs),
        against=tuple(_against(pairs, candidate, other) for other in others),
        claims=tuple(
            Checked(claim, _figure(pairs, claim.measure, claim.side, claim.against))
            for claim in claims
        ),
        means={side: _means([_values(pair, side) for pair in pairs]) for side in sides},
    )


def _means(taken: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for values in taken for name in values)
    found = {name: [values[name] for values in taken if name in values] for name in names}
    return {name: fmean(some) for name, some in found.items() if all(map(math.isfinite, some))}


def _against(pairs: Sequence[Pair], candidate: str, other: str) -> Against:
    names = dict.fromkeys(
        name for pair in pairs for side in (other, candidate) for name in _values(pair, side)
    )
    return Against(
        side=other,
        figures={name: _figure(pairs, name, candidate, other) for name in names},
        answers=_agreement(pairs, candidate, other),
    )


def _figure(pairs: Sequence[Pair], name: str, side: str, against: str) -> RatioResult:
    """Over 1 where `against` is nobody."""
    return ratio_of(
        name,
        [
            (_values(pair, side).get(name), _values(pair, against).get(name) if against else 1.0)
            for pair in pairs
        ],
    )


def _values(pair: Pair, side: str) -> Mapping[str, float]:
    return pair[side].values if side in pair else {}


def _agreement(pairs: Sequence[Pair], side: str, against: str) -> Agreement | None:
    """A turn after one that was answered differently is another question, and does not count."""
    compared = [
        pair[side].answers[question] == pair[against].answers[question]
        for pair in pairs
        if side in pair and against in pair
        for question in pair[side].answers.keys() & pair[against].answers.keys()
    ]
    return Agreement(sum(compared), len(compared)) if compared else None
