"""Latency and attainment over the rate."""

from loadtest.report.chart import Spec
from loadtest.report.rates import rates
from tests.support.load_records import measurement
from tests.support.load_summaries import made, one, searched, swept


def layers(spec: Spec, kind: str) -> list[Spec]:
    return [one for one in spec["layer"] if one["mark"]["type"] == kind]


def test_without_rates_there_is_nothing_to_draw() -> None:
    assert rates(one()[0]) == []
    assert rates(swept((4,))[0]) == []


def test_a_sweep_has_percentiles_of_both_latencies_with_their_targets() -> None:
    ttft, tpot = rates(swept()[0])
    for chart, target in ((ttft, 500), (tpot, 50)):
        values = layers(chart.spec, "line")[0]["data"]["values"]
        assert [value["rate"] for value in values] == [2] * 3 + [6] * 3 + [12] * 3
        assert {value["series"] for value in values} == {"P50", "P90", "P99"}
        (rule,) = layers(chart.spec, "rule")
        assert rule["data"]["values"][0]["at"] == target


def test_points_of_few_requests_are_hollow_and_explained() -> None:
    ttft = rates(swept()[0])[0]
    firm, hollow = layers(ttft.spec, "point")
    assert {value["series"] for value in firm["data"]["values"]} == {"P50"}
    assert {value["series"] for value in hollow["data"]["values"]} == {"P90", "P99"}
    assert (firm["mark"]["filled"], hollow["mark"]["filled"]) == (True, False)
    assert "hollow" in ttft.note


def test_a_search_has_attainment_with_intervals_and_what_is_asked() -> None:
    summary = searched()[0]
    chart = rates(summary)[-1]
    assert chart.key == "rates-attainment"
    points = layers(chart.spec, "point")[0]["data"]["values"]
    assert all(point["low"] <= point["share"] <= point["high"] for point in points)
    assert layers(chart.spec, "rule")[-1]["data"]["values"] == [{"at": 0.9, "label": "asked 90%"}]


def test_of_several_loads_all_together_is_drawn() -> None:
    runs = [measurement(rate=rate, searched=True) for rate in (2, 4)]
    for run in runs:
        for record in run.records[::2]:
            record.load = "batch"
    values = layers(rates(made(runs)[0])[0].spec, "line")[0]["data"]["values"]
    together = runs[0].loads()["all"].distributions["ttft_ms"].p50
    assert values[0]["ms"] == float(f"{together:.4g}")


def test_sides_are_told_apart_by_their_p90() -> None:
    runs = [
        measurement(side, rate=rate, seed=seed, searched=True)
        for seed in (1, 2, 3)
        for side in ("new", "old")
        for rate in (2, 4)
    ]
    ttft = rates(made(runs)[0])[0]
    assert ttft.title == "TTFT P90 over rate"
    values = layers(ttft.spec, "line")[0]["data"]["values"]
    assert [(value["series"], value["rate"]) for value in values] == [
        ("new", 2), ("new", 4), ("old", 2), ("old", 4),
    ]  # fmt: skip
    found = sorted(
        run.loads()["main"].distributions["ttft_ms"].p90
        for run in runs
        if (run.side, run.rate) == ("new", 2)
    )
    assert values[0]["ms"] == float(f"{found[1]:.4g}"), "the median of the seeds"
