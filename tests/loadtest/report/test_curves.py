"""Distributions, small enough for a page and true at every point."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.report.chart import Spec
from loadtest.report.curves import POINTS, curves, reduced
from loadtest.report.series import series_of
from tests.support.load_records import Server, measurement
from tests.support.load_summaries import compared, one, swept


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=POINTS))
def test_few_values_are_all_there(values: list[float]) -> None:
    found = reduced(np.asarray(values))
    assert [share for _value, share in found] == pytest.approx(
        [number / len(values) for number in range(1, len(values) + 1)], abs=1e-5
    )
    assert [value for value, _share in found] == pytest.approx(sorted(values), rel=1e-3)


def test_many_values_are_reduced_to_points_that_are_on_the_curve() -> None:
    values = np.random.default_rng(1).lognormal(3, 1, 100_000)
    found = reduced(values)
    assert len(found) <= POINTS
    assert found[-1][0] == pytest.approx(values.max(), rel=1e-3)
    for value, share in found[10:-1]:
        assert (values <= value).mean() == pytest.approx(share, abs=2e-3)
    shares = [share for _value, share in found]
    assert shares == sorted(shares)
    assert sum(share >= 0.99 for share in shares) >= 40, "the tail is where people look"


def values_of(spec: Spec) -> list[dict[str, object]]:
    values = spec["layer"][0]["data"]["values"]
    assert isinstance(values, list)
    return values


def rules_of(spec: Spec) -> list[Spec]:
    return [one for one in spec["layer"] if one["mark"]["type"] == "rule"]


def test_there_is_a_curve_for_each_measure_and_side() -> None:
    charts = curves(series_of(compared()[1]))
    assert [chart.key for chart in charts] == ["cdf-ttft", "cdf-tpot", "cdf-itl"]
    for chart in charts:
        assert {value["series"] for value in values_of(chart.spec)} == {"new", "old"}
        assert len(values_of(chart.spec)) <= 2 * POINTS
        assert chart.spec["layer"][0]["encoding"]["x"]["title"] == "milliseconds"


def test_targets_are_lines_where_there_are_any() -> None:
    ttft, tpot, itl = curves(series_of(one()[1]))
    assert rules_of(ttft.spec)[0]["data"]["values"] == [{"at": 500, "label": "target 500 ms"}]
    assert rules_of(tpot.spec)[0]["data"]["values"] == [{"at": 50, "label": "target 50 ms"}]
    assert rules_of(itl.spec) == []


def test_gaps_are_of_chunks_where_nobody_knows_tokens() -> None:
    run = measurement()
    assert curves(series_of([run]))[-1].title == "Gaps between tokens, ITL"
    for record in run.records:
        record.output_tokens = 7 * len(record.chunks_s)
    assert curves(series_of([run]))[-1].title == "Gaps between chunks, ITL"


def test_what_nobody_has_is_not_drawn() -> None:
    run = measurement(count=20, server=Server(fails=1.0))
    for record in run.records:
        record.chunks_s = []
    assert curves(series_of([run])) == []


def test_what_spreads_far_is_on_a_logarithmic_axis() -> None:
    ttft = curves(series_of(swept((2, 20))[1]))[0]
    scale = ttft.spec["layer"][0]["encoding"]["x"]["scale"]
    assert scale["type"] == "log"
    assert scale["domain"][0] > 0
    tpot = curves(series_of(swept((2, 20))[1]))[1]
    assert "type" not in tpot.spec["layer"][0]["encoding"]["x"]["scale"]
