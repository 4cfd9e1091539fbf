import math
from collections.abc import Sequence
from itertools import islice, pairwise
from random import Random
from statistics import fmean, pvariance

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from loadtest.arrivals import (
    ARRIVALS,
    Bursts,
    Constant,
    Gamma,
    Open,
    Poisson,
    Ramp,
    Trace,
    Users,
    at_rate,
)

MANY = 20_000
RATES = st.floats(0.01, 1000)
SPANS = st.floats(0.01, 100)
OPEN = st.one_of(
    st.builds(Constant, rate=RATES),
    st.builds(Poisson, rate=RATES),
    st.builds(Gamma, rate=RATES, burstiness=st.floats(0.05, 20)),
    st.builds(Ramp, rate=RATES, last_rate=RATES, seconds=SPANS),
    st.builds(Bursts, rate=RATES, on_s=SPANS, off_s=st.floats(0, 100)),
)


def moments(arrivals: Open, count: int = MANY, seed: int = 1) -> list[float]:
    return list(islice(arrivals.moments(Random(seed)), count))


def gaps(times: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise([0.0, *times])]


@settings(deadline=None)
@given(arrivals=OPEN, seed=st.integers())
def test_moments_begin_at_zero_or_later_and_never_fall(arrivals: Open, seed: int) -> None:
    times = moments(arrivals, 300, seed)
    assert times[0] >= 0
    assert all(before <= after for before, after in pairwise(times))
    assert times == moments(arrivals, 300, seed)


def test_constant_is_evenly_spaced_from_the_start_and_does_not_drift() -> None:
    times = moments(Constant(rate=3))
    assert times[:4] == [0, 1 / 3, 2 / 3, 1]
    assert times[3 * 5000] == 5000


def test_poisson_gaps_are_exponential() -> None:
    drawn = gaps(moments(Poisson(rate=4)))
    assert fmean(drawn) == pytest.approx(1 / 4, rel=0.03)
    assert pvariance(drawn) == pytest.approx(1 / 16, rel=0.06)
    later = sum(gap > 0.5 for gap in drawn) / MANY
    assert later == pytest.approx(math.exp(-2), rel=0.05)


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gamma_gaps_have_the_rate_and_vary_as_burstiness_says(burstiness: float) -> None:
    drawn = gaps(moments(Gamma(rate=4, burstiness=burstiness)))
    assert fmean(drawn) == pytest.approx(1 / 4, rel=0.05)
    squared_variation = pvariance(drawn) / fmean(drawn) ** 2
    assert squared_variation == pytest.approx(1 / burstiness, rel=0.1)


@pytest.mark.parametrize(("rate", "last_rate"), [(10, 90), (90, 10), (50, 50)])
def test_a_ramp_brings_what_its_rate_adds_up_to(rate: float, last_rate: float) -> None:
    ramp = Ramp(rate=rate, last_rate=last_rate, seconds=100)
    times = moments(ramp)
    for until in (10, 50, 100, 150):
        inside = min(until, 100)
        due = rate * inside + (last_rate - rate) * inside**2 / 200 + last_rate * (until - inside)
        came = sum(at < until for at in times)
        assert came == pytest.approx(due, abs=4.5 * math.sqrt(due)), until


def test_a_ramp_has_no_gap_where_it_ends() -> None:
    times = moments(Ramp(rate=100, last_rate=200, seconds=10))
    around = [gap for at, gap in zip(times, gaps(times), strict=True) if 9.5 < at < 10.5]
    assert max(around) < 0.1


def test_bursts_are_silent_while_off_and_poisson_while_on() -> None:
    times = moments(Bursts(rate=20, on_s=2, off_s=3))
    assert all(at % 5 <= 2 for at in times)
    cycles = math.floor(times[-1] / 5)
    assert MANY / cycles == pytest.approx(20 * 2, rel=0.03)
    inside = [gap for gap in gaps(times) if gap < 3]
    assert fmean(inside) == pytest.approx(1 / 20, rel=0.05)


def test_bursts_without_silence_are_poisson() -> None:
    bursts, poisson = Bursts(rate=7, on_s=1, off_s=0), Poisson(rate=7)
    assert moments(bursts, 100) == moments(poisson, 100)


def test_the_table_names_every_kind() -> None:
    assert {kind.model_fields["kind"].default for kind in ARRIVALS.values()} == set(ARRIVALS)
    assert all(kind.model_fields["kind"].default == name for name, kind in ARRIVALS.items())


@pytest.mark.parametrize("name", sorted(ARRIVALS))
@pytest.mark.parametrize("bad", [-1, 0, math.inf, math.nan])
def test_a_rate_is_a_positive_number(name: str, bad: float) -> None:
    kind: type[BaseModel] = ARRIVALS[name]
    required = {key: 1 for key, field in kind.model_fields.items() if field.is_required()}
    first = "speed" if name == "trace" else next(iter(required))
    kind.model_validate(required)
    with pytest.raises(ValidationError, match=first):
        kind.model_validate(required | {first: bad})


def test_another_rate_changes_the_rate_alone() -> None:
    assert at_rate(Constant(rate=1), 5) == Constant(rate=5)
    assert at_rate(Poisson(rate=1), 5) == Poisson(rate=5)
    assert at_rate(Gamma(rate=1, burstiness=2), 5) == Gamma(rate=5, burstiness=2)
    assert at_rate(Bursts(rate=1, on_s=2, off_s=3), 5) == Bursts(rate=5, on_s=2, off_s=3)
    assert at_rate(Trace(), 2.5) == Trace(speed=2.5)


@pytest.mark.parametrize(("rate", "users"), [(3.4, 3), (3.6, 4), (0.2, 1)])
def test_the_rate_of_a_closed_loop_is_its_whole_number_of_users(rate: float, users: int) -> None:
    closed = Users(users=9, think_s=1)
    assert at_rate(closed, rate) == Users(users=users, think_s=1)


def test_a_ramp_has_no_single_rate() -> None:
    with pytest.raises(ValueError, match="a ramp has no rate"):
        at_rate(Ramp(rate=1, last_rate=2, seconds=3), 5)
