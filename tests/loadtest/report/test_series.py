"""Which runs are one curve."""

from loadtest.report.series import MOST, MOST_HUES, is_ordered, series_of
from tests.support.load_records import measurement


def test_seeds_of_a_side_are_pooled() -> None:
    runs = [measurement(side, seed=seed, count=5) for seed in (1, 2) for side in ("b", "a")]
    found = series_of(runs)
    assert [one.name for one in found] == ["b", "a"]
    assert [len(one.records) for one in found] == [10, 10]
    assert not is_ordered(found)


def test_rates_are_ordered_and_named() -> None:
    found = series_of([measurement(rate=rate, count=5, searched=True) for rate in (4, 1, 2.125)])
    assert [one.name for one in found] == ["rate 1", "rate 2.12", "rate 4"]
    assert is_ordered(found)


def test_sides_at_rates_are_named_by_both() -> None:
    runs = [measurement(side, rate=2, count=5, searched=True) for side in ("a", "b")]
    found = series_of(runs)
    assert [one.name for one in found] == ["a, rate 2", "b, rate 2"]
    assert not is_ordered(found)


def test_of_many_rates_the_first_and_the_last_are_kept() -> None:
    runs = [measurement(rate=rate, count=2, searched=True) for rate in range(1, 31)]
    found = series_of(runs)
    assert len(found) == MOST
    assert (found[0].rate, found[-1].rate) == (1, 30)
    assert len({one.name for one in found}) == MOST


def test_of_many_sides_at_many_rates_as_many_are_kept_as_there_are_hues() -> None:
    runs = [
        measurement(side, rate=rate, count=2, searched=True)
        for side in ("a", "b")
        for rate in range(1, 9)
    ]
    assert len(series_of(runs)) == MOST_HUES
