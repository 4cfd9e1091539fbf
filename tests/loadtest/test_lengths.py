import math
from random import Random
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from loadtest.lengths import Fixed, Lengths, LogNormal, Uniform

READ = TypeAdapter[Fixed | Uniform | LogNormal](Lengths)
WIDE = {"low": 1, "high": 10**9}


def test_each_kind_is_read_by_its_name_and_a_number_is_fixed() -> None:
    assert READ.validate_python({"kind": "fixed", "tokens": 3}) == Fixed(tokens=3)
    assert READ.validate_python({"kind": "uniform", "low": 1, "high": 2}) == Uniform(low=1, high=2)
    assert READ.validate_python(7) == Fixed(tokens=7)


@pytest.mark.parametrize(
    "value",
    [
        0,
        True,
        2.5,
        "7",
        {"tokens": 3},
        {"kind": "normal"},
        {"kind": "fixed", "tokens": 0},
        {"kind": "uniform", "low": 0, "high": 2},
        {"kind": "uniform", "low": 3, "high": 2},
        {"kind": "uniform", "low": 1, "high": 2, "mean": 1},
        {"kind": "lognormal", "mean": 0, "sigma": 1, "low": 1, "high": 2},
        {"kind": "lognormal", "mean": 5, "sigma": 0, "low": 1, "high": 2},
        {"kind": "lognormal", "mean": math.inf, "sigma": 1, "low": 1, "high": 2},
        {"kind": "lognormal", "mean": 5, "sigma": 1, "low": 9, "high": 2},
    ],
)
def test_what_cannot_be_a_length_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        READ.validate_python(value)


def test_fixed_is_always_the_same() -> None:
    assert {Fixed(tokens=9).draw(Random(seed)) for seed in range(20)} == {9}


def test_uniform_draws_every_number_alike() -> None:
    random = Random(1)
    drawn = [Uniform(low=3, high=6).draw(random) for _ in range(4000)]
    assert set(drawn) == {3, 4, 5, 6}
    assert all(900 <= drawn.count(number) <= 1100 for number in (3, 4, 5, 6))


def test_lognormal_has_its_mean_and_sigma_before_clipping() -> None:
    random = Random(2)
    lengths = LogNormal(mean=161, sigma=0.5, **WIDE)
    drawn = [lengths.draw(random) for _ in range(20_000)]
    assert fmean(drawn) == pytest.approx(161, rel=0.02)
    assert pstdev(math.log(number) for number in drawn) == pytest.approx(0.5, rel=0.02)


@given(
    seed=st.integers(),
    mean=st.floats(1e-3, 1e6),
    sigma=st.floats(0.01, 20),
    ends=st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)),
)
def test_lognormal_stays_between_its_ends(
    seed: int, mean: float, sigma: float, ends: tuple[int, int]
) -> None:
    low, high = sorted(ends)
    drawn = LogNormal(mean=mean, sigma=sigma, low=low, high=high).draw(Random(seed))
    assert low <= drawn <= high


def test_each_says_in_words_what_it_is() -> None:
    assert str(Fixed(tokens=9)) == "9"
    assert str(Uniform(low=1, high=2)) == "uniform, 1 to 2"
    lognormal = LogNormal(mean=161, sigma=1, low=4, high=1024)
    assert str(lognormal) == "lognormal of mean 161, 4 to 1024"
