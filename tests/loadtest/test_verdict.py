"""The first sentence is the result."""

from dataclasses import replace

import pytest

from loadtest.metrics import Targets
from loadtest.search import Goodput, Verdict
from loadtest.verdict import BROKEN_OFF, told_targets, verdict
from tests.support.load_records import measurement
from tests.support.load_summaries import compared, made, one, searched, searches_compared, swept


def test_of_one_run_it_is_attainment_and_the_headline() -> None:
    summary, runs = one()
    first, *rest = verdict(summary)
    attainment = runs[0].loads()["main"].attainment
    assert f"{attainment:.1%} of 60 requests met TTFT ≤ 500 ms and TPOT ≤ 50 ms" in first
    assert "TTFT P50" in first
    assert any("refused, failed or cut" in sentence for sentence in rest)


def test_without_targets_it_says_what_finished() -> None:
    run = replace(measurement(), targets=Targets())
    (sentence,) = verdict(made([run])[0])
    assert sentence.startswith("60 of 60 requests finished")


def test_of_a_comparison_it_says_what_is_better_and_by_how_much() -> None:
    first, second, *_ = verdict(compared()[0])
    assert first.startswith("new against old, 3 pairs: better in TTFT P50 (0.")
    assert second == "1 of 2 claims met."


def test_searches_are_compared_by_what_they_found() -> None:
    first = verdict(searches_compared()[0])[0]
    assert first.startswith("new against old, 3 pairs: better in knee (2.0")


def test_one_pair_shows_no_difference() -> None:
    first = verdict(compared(pairs=1)[0])[0]
    assert "too few to show a difference" in first
    assert "TTFT P50 0." in first
    assert "better" not in first


def test_of_a_sweep_it_says_what_is_kept_up_with() -> None:
    assert verdict(swept()[0])[0].startswith("Keeps up with 2 a second, and no more: at 6: ")
    assert "highest rate tried" in verdict(swept((2,))[0])[0]


def test_of_a_search_it_is_the_goodput() -> None:
    summary = searched()[0]
    assert isinstance(summary.search, Goodput)
    first = verdict(summary)[0]
    assert first.startswith("Goodput ")
    assert "at least 90% of requests meet TTFT ≤ 500 ms" in first


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (Verdict.BELOW_LOW, "Goodput below"),
        (Verdict.AT_LEAST_HIGH, "Goodput at least"),
        (Verdict.OPEN, "broken off"),
    ],
)
def test_a_bracket_that_is_open_is_told_so(found: Verdict, told: str) -> None:
    summary = searched()[0]
    assert isinstance(summary.search, Goodput)
    search = replace(summary.search, verdict=found)
    assert told in verdict(replace(summary, search=search))[0]


def test_a_late_client_is_warned_of() -> None:
    run = measurement()
    assert not any("late" in sentence for sentence in verdict(made([run])[0]))
    for record in run.records:
        record.sent_s = record.scheduled_s + 0.05
    assert any("50.0 ms late" in sentence for sentence in verdict(made([run])[0]))


def test_targets_in_words() -> None:
    assert told_targets(Targets()) == "no target"
    assert told_targets(Targets(e2e_ms=1500)) == "E2E ≤ 1,500 ms"


def test_what_was_broken_off_says_so_first() -> None:
    first, second, *_ = verdict(replace(one()[0], broken_off=True))
    assert first == BROKEN_OFF
    assert second == verdict(one()[0])[0]


def test_tokens_that_nobody_counted_are_not_told() -> None:
    run = measurement()
    assert "output tokens a second" in verdict(made([run])[0])[0]
    for record in run.records:
        record.output_tokens = None
    assert "output tokens a second" not in verdict(made([run])[0])[0]
