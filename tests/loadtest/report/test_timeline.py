"""What happened when, in a bounded number of bins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.record import Outcome, Record
from loadtest.report.chart import Spec
from loadtest.report.series import series_of
from loadtest.report.timeline import BINS, POINTS, edges_of, running, timeline, tokens_s
from tests.support.load_records import Server, measurement
from tests.support.load_summaries import HOSTILE, compared, one, swept


def spans(*pairs: tuple[float, float]) -> list[Record]:
    return [Record("main", 0, 0, begin, sent_s=begin, ended_s=end) for begin, end in pairs]


def test_running_is_the_mean_over_each_bin() -> None:
    edges = np.asarray([0.0, 1.0, 2.0, 3.0])
    assert running(spans((0, 3), (0.5, 1.5)), edges).tolist() == [1.5, 1.5, 1.0]


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 20)), min_size=1, max_size=20))
def test_running_adds_up_to_the_time_of_all_requests(pairs: list[tuple[float, float]]) -> None:
    records = spans(*((begin, begin + length) for begin, length in pairs))
    edges = edges_of(records)
    total = float((running(records, edges) * np.diff(edges)).sum())
    assert total == pytest.approx(sum(length for _begin, length in pairs), abs=1e-6)


def test_tokens_add_up_to_those_of_all_requests() -> None:
    records = measurement(count=100).records
    edges = edges_of(records)
    total = float((tokens_s(records, edges) * np.diff(edges)).sum())
    assert total == pytest.approx(sum(record.output_tokens or 0 for record in records))


def test_tokens_are_where_the_server_counted_them() -> None:
    record = Record("main", 0, 0, 0.0, chunks_s=[0.5, 1.5], chunk_tokens=[1, 9], output_tokens=10)
    edges = np.asarray([0.0, 1.0, 2.0])
    assert tokens_s([record], edges).tolist() == [1, 9]
    record.chunk_tokens = []
    assert tokens_s([record], edges).tolist() == [5, 5]


def test_without_chunks_there_are_no_tokens() -> None:
    assert tokens_s(spans((0, 2)), np.asarray([0.0, 1.0, 2.0])).tolist() == [0, 0]


def test_a_long_run_has_no_more_bins_than_a_short_one() -> None:
    assert len(edges_of(spans((0, 86_400)))) == BINS + 1
    assert len(edges_of(spans((0, 0.05)))) == 2


def layers(spec: Spec, kind: str) -> list[Spec]:
    return [one for one in spec["layer"] if one["mark"]["type"] == kind]


def test_faults_are_rules_and_misses_are_crosses() -> None:
    summary, runs = one()
    requests, tokens = timeline(series_of(runs))
    for chart in (requests, tokens):
        (rule,) = layers(chart.spec, "rule")
        assert rule["data"]["values"] == [{"at": 3.0, "label": "kill decode-0"}]
    crosses = layers(requests.spec, "point")[-1]
    assert len(crosses["data"]["values"]) == sum(error.count for error in summary.errors)
    assert HOSTILE in {value["error"] for value in crosses["data"]["values"]}
    assert "red cross" in requests.note


def test_many_misses_are_thinned() -> None:
    run = measurement(count=1000, server=Server(fails=1.0))
    requests = timeline(series_of([run]))[0]
    assert POINTS / 2 < len(layers(requests.spec, "point")[-1]["data"]["values"]) <= POINTS


def test_without_misses_there_is_no_cross() -> None:
    requests = timeline(series_of(compared()[1]))[0]
    assert len(layers(requests.spec, "point")) == 1
    assert "cross" not in requests.note


def test_sides_are_shown_by_their_first_seed() -> None:
    requests = timeline(series_of(compared()[1]))[0]
    values = requests.spec["layer"][0]["data"]["values"]
    assert {value["series"] for value in values} == {"new", "old"}
    assert "Of seed 0." in requests.note


def test_of_a_sweep_the_highest_rate_is_shown() -> None:
    requests = timeline(series_of(swept()[1]))[0]
    values = requests.spec["layer"][0]["data"]["values"]
    assert {value["series"] for value in values} == {"rate 12"}
    assert "Of rate 12." in requests.note


def test_one_that_never_got_anywhere_is_drawn_too() -> None:
    run = measurement(count=1)
    run.records[0].outcome = Outcome.FAILED
    run.records[0].chunks_s = []
    run.records[0].ended_s = run.records[0].sent_s
    assert len(timeline(series_of([run]))) == 2


def test_of_sides_at_rates_each_is_shown_at_its_highest() -> None:
    runs = [
        measurement(side, rate=rate, count=10, searched=True)
        for side in ("new", "old")
        for rate in (2, 4)
    ]
    requests = timeline(series_of(runs))[0]
    values = requests.spec["layer"][0]["data"]["values"]
    assert {value["series"] for value in values} == {"new, rate 4", "old, rate 4"}
