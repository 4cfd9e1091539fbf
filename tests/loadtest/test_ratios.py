import math
from random import Random
from statistics import geometric_mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.ratios import RatioResult, Shown, order, ratio_of, t_quantile

LOWER = "main.ttft_ms.p50"
HIGHER = "main.output_tokens_s"
NEITHER = "main.duration_s"

VALUE = st.none() | st.floats() | st.integers(-3, 3).map(float)
SIDES = st.lists(st.sampled_from("abcdef"), min_size=1, unique=True)


@pytest.mark.parametrize(
    ("freedom", "p90", "p95", "p975", "p995"),
    [
        (1, 3.078, 6.314, 12.706, 63.657),
        (2, 1.886, 2.920, 4.303, 9.925),
        (3, 1.638, 2.353, 3.182, 5.841),
        (4, 1.533, 2.132, 2.776, 4.604),
        (5, 1.476, 2.015, 2.571, 4.032),
        (9, 1.383, 1.833, 2.262, 3.250),
        (10, 1.372, 1.812, 2.228, 3.169),
        (29, 1.311, 1.699, 2.045, 2.756),
        (30, 1.310, 1.697, 2.042, 2.750),
        (120, 1.289, 1.658, 1.980, 2.617),
    ],
)
def test_t_quantiles_are_those_of_the_tables(
    freedom: int, p90: float, p95: float, p975: float, p995: float
) -> None:
    found = [t_quantile(p, freedom) for p in (0.9, 0.95, 0.975, 0.995)]
    assert found == pytest.approx([p90, p95, p975, p995], abs=5.1e-4)


def test_t_quantiles_go_over_into_the_normal_distribution() -> None:
    assert t_quantile(0.975, 20_000) == pytest.approx(1.95996, abs=2e-4)
    assert t_quantile(0.5, 3) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("probability", "freedom"), [(0.4, 3), (1.0, 3), (0.9, 0)])
def test_what_has_no_quantile_is_refused(probability: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        t_quantile(probability, freedom)


def test_the_mean_of_a_ratio_and_its_inverse_is_one() -> None:
    result = ratio_of(LOWER, [(2.0, 1.0), (1.0, 2.0)])
    assert result.ratios == (2.0, 0.5)
    assert result.mean == pytest.approx(1.0)
    assert result.median == pytest.approx(1.25)
    assert result.interval is not None
    low, high = result.interval
    # The logs are +-ln 2, so their standard error is ln 2 and the quantile of one degree 12.706.
    assert math.log(high) == pytest.approx(12.7062 * math.log(2), rel=1e-5)
    assert low == pytest.approx(1 / high)


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=20))
def test_the_interval_is_about_the_geometric_mean_and_turns_round_with_the_sides(
    ratios: list[float],
) -> None:
    result = ratio_of(LOWER, [(ratio, 1.0) for ratio in ratios])
    inverse = ratio_of(LOWER, [(1.0, ratio) for ratio in ratios])
    assert result.interval is not None
    assert inverse.interval is not None
    assert result.mean == pytest.approx(geometric_mean(ratios))
    low, high = result.interval
    assert low * high == pytest.approx(geometric_mean(ratios) ** 2, rel=1e-6)
    assert inverse.interval == pytest.approx((1 / high, 1 / low), rel=1e-6)


@pytest.mark.parametrize("pairs", [2, 3, 5, 10])
def test_the_interval_covers_the_truth_about_19_times_of_20(pairs: int) -> None:
    random = Random(f"coverage {pairs}")
    trials, covered = 3000, 0
    for _ in range(trials):
        values = [(1.2 * random.lognormvariate(0, 0.3), 1.0) for _ in range(pairs)]
        interval = ratio_of(LOWER, values).interval
        assert interval is not None
        covered += interval[0] <= 1.2 <= interval[1]
    assert covered / trials == pytest.approx(0.95, abs=0.015)


def test_one_pair_has_a_mean_and_no_interval() -> None:
    result = ratio_of(LOWER, [(3.0, 2.0)])
    assert result.mean == pytest.approx(1.5)
    assert (result.median, result.pairs) == (1.5, 1)
    assert result.interval is None
    assert result.shown is Shown.NO_DIFFERENCE


def test_no_pair_has_nothing() -> None:
    assert ratio_of(LOWER, []) == RatioResult(LOWER, (), None, None, None)


@pytest.mark.parametrize(
    "useless", [(None, 1.0), (1.0, None), (0.0, 0.0), (-1.0, 2.0), (math.nan, 1.0), (1.0, math.inf)]
)
def test_a_pair_without_a_ratio_is_left_out_and_counted(
    useless: tuple[float | None, float | None],
) -> None:
    result = ratio_of(LOWER, [(2.0, 1.0), useless, (2.0, 1.0)])
    assert result.ratios == (2.0, 2.0)
    assert result.left_out == 1
    assert (result.lost, result.won) == (0, 0)


@pytest.mark.parametrize(
    ("name", "values", "lost", "won"),
    [
        ("main.misses", (4.0, 0.0), 1, 0),
        ("main.misses", (0.0, 4.0), 0, 1),
        ("main.attainment", (0.0, 0.9), 1, 0),
        ("main.attainment", (0.9, 0.0), 0, 1),
        (NEITHER, (0.9, 0.0), 0, 0),
        ("main.misses", (math.nan, 0.0), 0, 0),
    ],
)
def test_none_of_something_against_some_is_lost_or_won(
    name: str, values: tuple[float, float], lost: int, won: int
) -> None:
    result = ratio_of(name, [values])
    assert (result.left_out, result.lost, result.won) == (1, lost, won)


@given(st.lists(st.tuples(VALUE, VALUE), max_size=8), st.sampled_from([LOWER, HIGHER, NEITHER]))
def test_no_values_make_an_infinity_or_a_crash(
    values: list[tuple[float | None, float | None]], name: str
) -> None:
    result = ratio_of(name, values)
    assert result.pairs + result.left_out == len(values)
    numbers = [*result.ratios, *(result.interval or ()), result.mean or 1.0, result.median or 1.0]
    assert all(0 <= number < math.inf for number in numbers)
    assert isinstance(result.shown, Shown)
    assert result.is_worse_by(0.05) in (True, False)


@pytest.mark.parametrize(
    ("name", "ratios", "shown"),
    [
        (LOWER, (0.8, 0.81, 0.79), Shown.BETTER),
        (LOWER, (1.2, 1.21, 1.19), Shown.WORSE),
        (HIGHER, (0.8, 0.81, 0.79), Shown.WORSE),
        (HIGHER, (1.2, 1.21, 1.19), Shown.BETTER),
        (NEITHER, (1.2, 1.21, 1.19), Shown.DIFFERENT),
        (LOWER, (0.7, 1.4, 1.3), Shown.NO_DIFFERENCE),
        (LOWER, (1.0, 1.0, 1.0), Shown.NO_DIFFERENCE),
    ],
)
def test_a_difference_is_shown_where_the_interval_leaves_1(
    name: str, ratios: tuple[float, ...], shown: Shown
) -> None:
    assert ratio_of(name, [(ratio, 1.0) for ratio in ratios]).shown is shown


@pytest.mark.parametrize(
    ("name", "ratios", "worse"),
    [
        (LOWER, (1.06, 1.061, 1.059), True),
        (LOWER, (1.04, 1.041, 1.039), False),
        (LOWER, (0.5, 0.51, 0.49), False),
        (LOWER, (1.0, 1.9, 1.2), False),
        (HIGHER, (0.94, 0.941, 0.939), True),
        (HIGHER, (0.951, 0.952, 0.95), False),
        (HIGHER, (2.0, 2.01, 1.99), False),
        (NEITHER, (2.0, 2.01, 1.99), False),
        (LOWER, (1.06,), True),
        (LOWER, (1.04,), False),
        (LOWER, (), False),
    ],
)
def test_worse_is_by_more_than_the_share_and_beyond_chance(
    name: str, ratios: tuple[float, ...], worse: bool
) -> None:
    assert ratio_of(name, [(ratio, 1.0) for ratio in ratios]).is_worse_by(0.05) is worse


@pytest.mark.parametrize(
    ("values", "worse"),
    [
        ([(1.0, 0.0), (9.0, 0.0)], True),
        ([(1.0, 0.0), (9.0, 2.0)], True),
        ([(1.0, 0.0), (0.0, 0.0)], False),
        ([(1.0, 0.0), (1.0, 2.0)], False),
        ([(1.0, 0.0), (0.0, 2.0)], False),
        ([(0.0, 2.0), (0.0, 3.0)], False),
    ],
)
def test_misses_where_there_were_none_are_worse_when_every_pair_is(
    values: list[tuple[float, float]], worse: bool
) -> None:
    assert ratio_of("main.misses", values).is_worse_by(0.05) is worse


def test_two_sides_take_turns_so_that_a_drift_cancels() -> None:
    assert [order("AB", pair) for pair in range(4)] == [
        ("A", "B"), ("B", "A"), ("B", "A"), ("A", "B"),
    ]  # fmt: skip


@given(SIDES, st.integers(0, 30))
def test_as_many_pairs_as_sides_give_each_side_every_place_once(
    sides: list[str], turn: int
) -> None:
    orders = [order(sides, turn * len(sides) + place) for place in range(len(sides))]
    for place in range(len(sides)):
        assert sorted(one[place] for one in orders) == sorted(sides)


def test_over_two_turns_nobody_is_always_behind_the_same() -> None:
    followed = {one[at - 1] for p in range(6) for one in [order("ABC", p)] for at in (1, 2)
                if one[at] == "B"}  # fmt: skip
    assert followed == {"A", "C"}
