"""The result in a sentence or two: what somebody reads who reads nothing else. Pure."""

from collections.abc import Iterator, Mapping

from loadtest.comparison import HEADLINE, Against, Comparison
from loadtest.knee import Knee
from loadtest.measurement import ALL, better
from loadtest.metrics import LoadMeasures, Targets
from loadtest.numbers import change, number, share
from loadtest.ratio_tables import words
from loadtest.ratios import RatioResult, Shown
from loadtest.search import Goodput, Verdict
from loadtest.summary import Summary

BROKEN_OFF = "Broken off before its end: only requests that had ended by then are here."
LATE_MS = 10.0
"""A client that is later than this at P99 shares the blame for what it measured."""


def verdict(summary: Summary) -> list[str]:
    """Sentences, the first the most important."""
    broken_off = [BROKEN_OFF] if summary.broken_off else []
    return [*broken_off, *_said(summary), *_warnings(summary)]


def _said(summary: Summary) -> list[str]:
    if summary.comparison is not None:
        return list(_compared(summary.comparison))
    match summary.search:
        case Goodput():
            return [_goodput(summary.search, summary.targets)]
        case Knee():
            return [_knee(summary.search)]
        case None:
            return [_headline(summary)]


def _compared(comparison: Comparison) -> Iterator[str]:
    for other in comparison.against:
        yield _against(comparison, other)
    if comparison.claims:
        met = sum(checked.holds for checked in comparison.claims)
        yield f"{met} of {_counted(len(comparison.claims), 'claim')} met."


def _against(comparison: Comparison, other: Against) -> str:
    loads = dict.fromkeys(figure.partition(".")[0] for figure in other.figures)
    load = ALL if ALL in loads else next(iter(loads), "")
    chosen = {
        name: other.figures[f"{load}.{name}"]
        for name in HEADLINE
        if f"{load}.{name}" in other.figures
    }
    kinds = (Shown.BETTER, Shown.WORSE, Shown.NO_DIFFERENCE)
    told = [f"{kind.value} in {', '.join(those)}" for kind in kinds if (those := _of(chosen, kind))]
    after = f"{comparison.candidate} against {other.side}, {_counted(comparison.pairs, 'pair')}"
    if comparison.pairs == 1:
        return f"{after}, which is too few to show a difference{_tendency(chosen)}."
    return f"{after}: {'; '.join(told) or 'nothing to compare'}."


def _of(chosen: Mapping[str, RatioResult], kind: Shown) -> list[str]:
    """With how much, but for what may be chance."""
    return [
        _short(name) if kind is Shown.NO_DIFFERENCE else f"{_short(name)} ({change(ratio.mean)})"
        for name, ratio in chosen.items()
        if ratio.shown is kind and (ratio.mean is not None or ratio.lost or ratio.won)
    ]


def _tendency(chosen: Mapping[str, RatioResult]) -> str:
    """What one pair says, which has no interval."""
    told = [
        f"{_short(figure)} {change(ratio.mean)}"
        for figure, ratio in chosen.items()
        if ratio.mean is not None
        and ratio.interval is None
        and better(ratio.name, ratio.mean) is not None
    ]
    return f": {', '.join(told)}" if told else ""


def _short(figure: str) -> str:
    return words(figure).partition(",")[0]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _goodput(search: Goodput, targets: Targets) -> str:
    asked = f"at least {search.asked:.0%} of requests meet {told_targets(targets)}"
    rate = search.rate
    match search.verdict:
        case Verdict.FOUND:
            sure = "" if search.is_clear else ", by a margin that chance could explain"
            assert rate is not None
            return f"Goodput {number(rate)} a second: the highest rate at which {asked}{sure}."
        case Verdict.AT_LEAST_HIGH:
            return f"Goodput at least {number(rate)} a second: at the highest rate tried, {asked}."
        case Verdict.BELOW_LOW:
            low = search.failed.rate if search.failed else None
            return f"Goodput below {number(low)} a second: not even there do {asked}."
        case Verdict.OPEN:
            return f"The search for goodput was broken off; so far {number(rate)} a second."


def _knee(search: Knee) -> str:
    if search.rate is None:
        return f"Not even the lowest rate is kept up with: {search.why}."
    if search.is_bound:
        return f"Keeps up with {number(search.rate)} a second, the highest rate tried."
    return f"Keeps up with {number(search.rate)} a second, and no more: {search.why}."


def _headline(summary: Summary) -> str:
    measures = _together(summary)
    parts = []
    if measures.attainment is not None:
        parts.append(
            f"{share(measures.attainment)} of {measures.issued:,} requests met "
            f"{told_targets(summary.targets)}"
        )
    else:
        finished = measures.outcomes.get("finished", 0)
        parts.append(f"{finished:,} of {measures.issued:,} requests finished")
    for measure, called in (("ttft_ms", "TTFT"), ("tpot_ms", "TPOT")):
        found = measures.distributions.get(measure)
        if found is not None:
            parts.append(f"{called} P50 {number(found.p50)} ms")
    if measures.output_tokens_s is not None:
        parts.append(f"{number(measures.output_tokens_s)} output tokens a second")
    return f"{'; '.join(parts)}."


def _together(summary: Summary) -> LoadMeasures:
    """Of the first run, all its loads."""
    loads = summary.runs[0].loads
    return loads[ALL] if ALL in loads else next(iter(loads.values()))


def told_targets(targets: Targets) -> str:
    told = [
        f"{called} ≤ {number(limit)} ms"
        for called, limit in (
            ("TTFT", targets.ttft_ms),
            ("TPOT", targets.tpot_ms),
            ("E2E", targets.e2e_ms),
        )
        if limit
    ]
    return " and ".join(told) or "no target"


def _warnings(summary: Summary) -> Iterator[str]:
    late = [
        found.p99
        for run in summary.runs
        for measures in run.loads.values()
        if (found := measures.distributions.get("lag_ms")) is not None
    ]
    if late and max(late) > LATE_MS:
        yield (
            f"The client itself was up to {number(max(late))} ms late (P99): it had too little "
            "processor, and its lag is part of every latency here."
        )
    missed = sum(error.count for error in summary.errors)
    if missed:
        yield f"{_counted(missed, 'request')} refused, failed or cut; each counts as a miss."
