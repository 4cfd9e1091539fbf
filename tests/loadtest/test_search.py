import math
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loadtest.errors import LoadTestError
from loadtest.measurement import Measurement
from loadtest.metrics import Targets
from loadtest.record import Outcome, Record
from loadtest.scenario import Search
from loadtest.search import Attained, Goodput, GoodputSearch, Verdict, attained, wilson


def a_search(low: float = 1.0, high: float = 64.0, precision: float = 0.05) -> Search:
    return Search(kind="goodput", low=low, high=high, attainment=0.9, precision=precision)


def exact_server(goodput: float, rate: float) -> Attained:
    return Attained(rate, 100 if rate <= goodput else 0, 100)


def noisy_server(goodput: float, rate: float, random: Random, requests: int = 400) -> Attained:
    """Each request meets its targets by chance: nine of ten at the goodput, fewer above."""
    chance = 1 / (1 + (rate / goodput) ** 12 / 9)
    return Attained(rate, sum(random.random() < chance for _ in range(requests)), requests)


def found(search: Search, goodput: float) -> Goodput:
    steps = GoodputSearch(search)
    while (rate := steps.next_rate()) is not None:
        steps.observe(exact_server(goodput, rate))
    return steps.result()


def test_geometric_middles_are_measured_and_no_end_that_is_far_from_the_goodput() -> None:
    steps = GoodputSearch(a_search(low=1, high=16))
    asked: list[float] = []
    while (rate := steps.next_rate()) is not None and len(asked) < 4:
        asked.append(rate)
        steps.observe(exact_server(5.0, rate))
    assert asked == pytest.approx([4, 8, 5.657, 4.757], rel=1e-4)


@given(
    low=st.floats(0.01, 100),
    span=st.floats(1.01, 1000),
    place=st.floats(0, 1, exclude_max=True),
    precision=st.floats(0.001, 0.9),
)
def test_the_bracket_holds_the_goodput_to_the_precision(
    low: float, span: float, place: float, precision: float
) -> None:
    goodput = low * span**place
    assume(low <= goodput < low * span)
    result = found(a_search(low, low * span, precision), goodput)
    assert result.verdict is Verdict.FOUND
    assert result.passed is not None
    assert result.failed is not None
    assert result.rate == result.passed.rate <= goodput < result.failed.rate
    assert result.failed.rate / result.passed.rate <= 1 + precision
    halvings = math.ceil(math.log2(max(1.0, math.log(span) / math.log1p(precision))))
    assert len(result.points) <= halvings + 2


@given(st.lists(st.booleans(), min_size=20, max_size=20), st.floats(0.01, 0.5))
def test_whatever_passes_the_bracket_only_shrinks_around_measured_rates(
    passes: list[bool], precision: float
) -> None:
    steps = GoodputSearch(a_search(precision=precision))
    bracket = (0.0, math.inf)
    for passed in passes:
        rate = steps.next_rate()
        if rate is None:
            break
        assert bracket[0] < rate < bracket[1]
        steps.observe(Attained(rate, 9 if passed else 0, 10))
        result = steps.result()
        bracket = (
            result.passed.rate if result.passed else 0.0,
            result.failed.rate if result.failed else math.inf,
        )
        assert rate in bracket
        assert [point.rate for point in result.points] == sorted(p.rate for p in result.points)
    assert steps.next_rate() is None


@pytest.mark.parametrize("goodput", [1.7, 6.0, 29.0])
def test_a_noisy_server_is_found_within_twice_the_precision(goodput: float) -> None:
    for seed in range(20):
        random = Random(f"noisy {seed}")
        steps = GoodputSearch(a_search())
        while (rate := steps.next_rate()) is not None:
            steps.observe(noisy_server(goodput, rate, random))
        result = steps.result()
        assert result.rate == pytest.approx(goodput, rel=0.1)


def test_a_low_that_fails_ends_the_search_below_it() -> None:
    result = found(a_search(low=4), goodput=2.0)
    assert result.verdict is Verdict.BELOW_LOW
    assert result.rate is None
    assert min(point.rate for point in result.points) == 4


def test_a_high_that_passes_ends_the_search_at_least_there() -> None:
    result = found(a_search(high=16), goodput=20.0)
    assert result.verdict is Verdict.AT_LEAST_HIGH
    assert result.rate == 16
    assert result.failed is None
    assert max(point.rate for point in result.points) == 16


def test_a_search_left_early_says_so_and_keeps_its_bracket() -> None:
    steps = GoodputSearch(a_search())
    assert steps.result() == Goodput(Verdict.OPEN, 0.9, None, None, ())
    steps.observe(Attained(8.0, 10, 10))
    steps.observe(Attained(8.0 * math.sqrt(8), 1, 10))
    result = steps.result()
    assert result.verdict is Verdict.OPEN
    assert result.passed == Attained(8.0, 10, 10)
    assert result.failed == Attained(8.0 * math.sqrt(8), 1, 10)


def test_exactly_the_share_passes() -> None:
    steps = GoodputSearch(a_search())
    steps.observe(Attained(8.0, 9, 10))
    assert steps.next_rate() == pytest.approx(8 * math.sqrt(8))


def test_an_observation_at_another_rate_is_refused() -> None:
    steps = GoodputSearch(a_search())
    with pytest.raises(ValueError, match="asked for rate 8"):
        steps.observe(Attained(2.0, 1, 1))


def test_nothing_can_be_observed_after_the_end() -> None:
    steps = GoodputSearch(a_search(low=4, high=4.1))
    steps.observe(Attained(4.0, 0, 10))
    with pytest.raises(ValueError, match="asked for rate None"):
        steps.observe(Attained(4.0, 10, 10))


def test_a_sweep_is_no_search_for_goodput() -> None:
    with pytest.raises(ValueError, match="sweep"):
        GoodputSearch(Search(kind="sweep", rates=(1.0,)))


@pytest.mark.parametrize(("met", "judged"), [(0, 0), (2, 1), (-1, 3)])
def test_impossible_counts_are_refused(met: int, judged: int) -> None:
    with pytest.raises(ValueError, match="cannot meet"):
        Attained(1.0, met, judged)


def test_a_result_is_clear_when_both_ends_are_beyond_chance() -> None:
    passed, failed = Attained(1.0, 400, 400), Attained(1.05, 320, 400)
    near = Attained(1.05, 355, 400)
    assert Goodput(Verdict.FOUND, 0.9, passed, failed, ()).is_clear
    assert not Goodput(Verdict.FOUND, 0.9, passed, near, ()).is_clear
    assert not Goodput(Verdict.OPEN, 0.9, None, None, ()).is_clear


@pytest.mark.parametrize(
    ("met", "of", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_has_the_values_of_its_tables(met: int, of: int, low: float, high: float) -> None:
    """The last two are the examples of Newcombe (1998), method 3."""
    assert wilson(met, of) == pytest.approx((low, high), abs=1e-4)


@given(of=st.integers(1, 10_000), data=st.data())
def test_wilson_holds_the_share_and_stays_within_0_and_1(of: int, data: st.DataObject) -> None:
    met = data.draw(st.integers(0, of))
    low, high = wilson(met, of)
    assert 0 <= low <= met / of <= high <= 1
    assert low < high


@settings(max_examples=20)
@given(chance=st.floats(0.05, 0.95), seed=st.integers(0, 1000))
def test_wilson_covers_the_truth_about_19_times_of_20(chance: float, seed: int) -> None:
    random = Random(f"coverage {seed}")
    covered = 0
    for _ in range(300):
        met = sum(random.random() < chance for _ in range(60))
        low, high = wilson(met, 60)
        covered += low <= chance <= high
    assert covered / 300 > 0.88


def a_record(session: int, ttft_s: float, outcome: Outcome = Outcome.FINISHED) -> Record:
    return Record(
        "main", session, 0, scheduled_s=session, sent_s=session, ended_s=session + ttft_s,
        outcome=outcome, chunks_s=[session + ttft_s], output_tokens=1,
    )  # fmt: skip


def a_measurement(
    records: list[Record], rate: float | None = 2.0, ttft_ms: float = 500
) -> Measurement:
    return Measurement("here", 1, Targets(ttft_ms=ttft_ms), records, rate)


def test_of_a_measurement_every_request_is_judged_but_those_that_left() -> None:
    records = [a_record(number, 0.1) for number in range(5)]
    records += [a_record(5, 0.9), a_record(6, 0.1, Outcome.CUT), a_record(7, 0.1, Outcome.LEFT)]
    assert attained(a_measurement(records)) == Attained(2.0, 5, 7)


def test_loads_are_judged_together() -> None:
    other = a_record(1, 0.9)
    other.load = "other"
    assert attained(a_measurement([a_record(0, 0.1), other])) == Attained(2.0, 1, 2)


def test_a_measurement_without_what_goodput_needs_is_refused() -> None:
    record = a_record(0, 0.1)
    with pytest.raises(LoadTestError, match="rate"):
        attained(a_measurement([record], rate=None))
    with pytest.raises(LoadTestError, match="targets"):
        attained(a_measurement([record], ttft_ms=0))
    with pytest.raises(LoadTestError, match="targets"):
        attained(a_measurement([a_record(0, 0.1, Outcome.LEFT)]))
