"""Three digits that matter, never an exponent."""

import math

import pytest

from loadtest.numbers import change, duration, number, share


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (3, "3"),
        (25, "25"),
        (1234.5, "1,234"),
        (123.44, "123"),
        (12.34, "12.3"),
        (1.234, "1.23"),
        (0.01234, "0.0123"),
        (-2.5, "-2.50"),
        (1e12, "1,000,000,000,000"),
        (1e-12, "0.000000"),
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0%"), (1, "100%"), (0.5, "50.0%"), (0.9999, "99.9%"), (0.0001, "0.1%"), (None, "–")],
)
def test_all_and_nothing_are_said_only_of_all_and_nothing(value: float | None, text: str) -> None:
    assert share(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (9.54, "9.5 s"), (45.2, "45 s"), (59.7, "1 min 00 s"), (3725, "1 h 02 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_ratio_is_told_as_a_factor() -> None:
    assert change(1.304) == "1.30×"
    assert change(None) == "–"
