import heapq
import math
from random import Random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.errors import LoadTestError
from loadtest.knee import Knee, Point, find_knee, point, served_share, trouble
from loadtest.measurement import Measurement
from loadtest.metrics import Targets
from loadtest.record import Outcome, Record

LANES = 8
MEAN_S = 2.0
CAPACITY = LANES / MEAN_S


def records_of(rate: float, seed: int, requests: int = 300) -> list[Record]:
    """Poisson arrivals at a server of so many lanes, with log-normal service."""
    random = Random(f"lanes {rate} {seed}")
    free = [0.0] * LANES
    at = 0.0
    records = []
    for session in range(requests):
        at += random.expovariate(rate)
        began = max(at, heapq.heappop(free))
        ended = began + MEAN_S * random.lognormvariate(-0.18, 0.6)
        heapq.heappush(free, ended)
        records.append(
            Record(
                "main",
                session,
                0,
                scheduled_s=at,
                sent_s=at,
                ended_s=ended,
                outcome=Outcome.FINISHED,
                chunks_s=[began + 0.3, ended],
                output_tokens=2,
            )
        )
    return records


def measured(rate: float | None, records: list[Record]) -> Measurement:
    return Measurement("here", 1, Targets(), records, rate)


def good(rate: float) -> Point:
    return Point(rate, 1.0, 100.0, 200.0, 10.0)


def behind(rate: float) -> Point:
    return Point(rate, 0.8, 100.0, 200.0, 10.0)


def knee_of(pattern: str) -> Knee:
    """`+` is kept up with, `-` is not; rates 1, 2, 3 and so on."""
    points = [good(n) if sign == "+" else behind(n) for n, sign in enumerate(pattern, 1)]
    return find_knee(points)


@pytest.mark.parametrize(
    ("pattern", "rate", "exceptions"),
    [
        ("+++--", 3, ()),
        ("++++", 4, ()),
        ("----", None, ()),
        ("++-++---", 5, (3,)),
        ("++---+--", 2, (6,)),
        ("+-+--", 1, (3,)),
        ("-+++--", 4, (1,)),
    ],
)
def test_the_knee_parts_the_rates_with_the_fewest_exceptions(
    pattern: str, rate: float | None, exceptions: tuple[float, ...]
) -> None:
    knee = knee_of(pattern)
    assert knee.rate == rate
    assert knee.exceptions == exceptions


@given(st.text("+-", min_size=1, max_size=12), st.randoms())
def test_no_other_rate_has_fewer_exceptions_whatever_the_order(
    pattern: str, random: object
) -> None:
    knee = knee_of(pattern)
    wrong = [pattern[:cut].count("-") + pattern[cut:].count("+") for cut in range(len(pattern) + 1)]
    assert len(knee.exceptions) == min(wrong)
    assert wrong.index(min(wrong)) == (knee.rate or 0)
    backwards = [good(n) if s == "+" else behind(n) for n, s in enumerate(pattern, 1)][::-1]
    assert find_knee(backwards) == knee


@given(st.text("+-", min_size=1, max_size=12))
def test_a_knee_always_says_why_it_is_not_higher(pattern: str) -> None:
    knee = knee_of(pattern)
    assert ("no higher rate" in knee.why) == knee.is_bound
    assert knee.is_bound == (knee.rate == len(pattern))


def test_the_reason_is_of_the_first_rate_above_that_is_not_kept_up_with() -> None:
    assert knee_of("++--").why == "at 3: served 80% of what was offered"


def test_a_rate_measured_twice_is_on_one_side_of_the_knee() -> None:
    assert find_knee([good(1), good(2), behind(2), good(2), behind(3)]).rate == 2


def test_a_curve_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        find_knee([])


@pytest.mark.parametrize(
    ("slower", "text"),
    [
        (Point(2, 0.96, 199, 599, 1), ""),
        (Point(2, 0.94, 100, 200, 1), "served 94% of what was offered"),
        (Point(2, 1.0, 250, 200, 1), "TTFT P50 of 250 ms, 2.5 times the lowest rate's"),
        (Point(2, 1.0, 150, 700, 1), "TTFT P90 of 700 ms, 3.5 times the lowest rate's"),
        (Point(2, 0.0, None, None, 0), "served 0% of what was offered"),
    ],
)
def test_trouble_is_too_little_served_or_too_late_a_first_token(slower: Point, text: str) -> None:
    assert trouble(slower, good(1)) == text


def test_the_constant_time_a_request_takes_is_not_held_against_the_server() -> None:
    records = [
        Record("main", n, 0, scheduled_s=n, sent_s=n, ended_s=n + 60, outcome=Outcome.FINISHED)
        for n in range(10)
    ]
    assert served_share(records) == pytest.approx(1)


def test_one_very_long_answer_does_not_make_a_server_slow() -> None:
    records = [
        Record("main", n, 0, scheduled_s=n, sent_s=n, ended_s=n + 1, outcome=Outcome.FINISHED)
        for n in range(40)
    ]
    records[20].ended_s = 90.0
    assert served_share(records) == pytest.approx(1, abs=0.04)


def test_a_server_at_capacity_serves_capacity_over_offered() -> None:
    records = [
        Record("main", n, 0, scheduled_s=n / 4, sent_s=n / 4, ended_s=1 + n / 3,
               outcome=Outcome.FINISHED)
        for n in range(100)
    ]  # fmt: skip
    assert served_share(records) == pytest.approx(3 / 4)


def test_what_is_refused_is_not_served_and_what_left_is_not_counted() -> None:
    outcomes = [Outcome.FINISHED, Outcome.REJECTED, Outcome.FINISHED, Outcome.FINISHED] * 10
    records = [
        Record("main", n, 0, scheduled_s=n, sent_s=n, ended_s=n, outcome=outcome)
        for n, outcome in enumerate(outcomes)
    ]
    assert served_share(records) == pytest.approx(0.75, rel=0.05)
    left = [Record("main", n, 0, scheduled_s=900, outcome=Outcome.LEFT) for n in range(20)]
    assert served_share(records + left) == served_share(records)


def test_without_an_answer_nothing_is_served() -> None:
    assert served_share([Record("main", 0, 0, scheduled_s=0.0)]) == 0


def test_one_answer_is_all_that_was_offered() -> None:
    record = Record("main", 0, 0, scheduled_s=1, ended_s=2, outcome=Outcome.FINISHED)
    assert served_share([record]) == 1


def test_the_knee_of_a_simulated_server_is_near_its_capacity() -> None:
    rates = [CAPACITY * share for share in (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6)]
    knees = []
    for seed in range(20):
        knee = find_knee([point(measured(rate, records_of(rate, seed))) for rate in rates])
        assert not knee.is_bound
        knees.append((knee.rate or 0) / CAPACITY)
    assert min(knees) >= 0.4
    assert median(knees) == pytest.approx(0.6, abs=0.2)
    assert max(knees) <= 1.0


def test_a_point_is_of_all_loads_together() -> None:
    records = records_of(1.0, 0, requests=10)
    records[9].load = "other"
    found = point(measured(1.0, records))
    assert found.rate == 1.0
    assert found.served_share == served_share(records)
    assert found.ttft_p50_ms == pytest.approx(300)
    assert (found.output_tokens_s or 0) > 0


def test_a_point_without_content_has_no_ttft() -> None:
    found = point(measured(1.0, [Record("main", 0, 0, scheduled_s=0.0, ended_s=1.0)]))
    assert found.ttft_p50_ms is None
    assert found.ttft_p90_ms is None
    assert math.isfinite(found.served_share)


def test_a_measurement_at_no_rate_is_refused() -> None:
    with pytest.raises(LoadTestError, match="rate"):
        point(measured(None, records_of(1.0, 0, requests=3)))
