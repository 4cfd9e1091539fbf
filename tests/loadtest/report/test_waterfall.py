"""The slowest requests, phase by phase."""

import pytest

from loadtest.metrics import e2e_ms
from loadtest.record import Outcome, Record
from loadtest.report.series import series_of
from loadtest.report.waterfall import PHASES, SLOWEST, told_by, waterfall
from tests.support.load_records import Server, measurement
from tests.support.load_summaries import compared, one


def test_the_slowest_come_first_and_their_phases_add_up() -> None:
    runs = one()[1]
    chart = waterfall(series_of(runs))
    assert chart is not None
    rows = chart.spec["layer"][0]["data"]["values"]
    assert len(rows) == SLOWEST * len(PHASES)
    totals = [row["total"] for row in rows[:: len(PHASES)]]
    assert totals == sorted(totals, reverse=True)
    slowest = max(took for record in runs[0].records if (took := e2e_ms(record)) is not None)
    assert totals[0] == pytest.approx(slowest / 1e3, rel=1e-3)
    late, first, rest = rows[:3]
    assert late["from"] == 0
    assert (late["to"], first["to"]) == (first["from"], rest["from"])
    assert rest["to"] == totals[0]


def test_two_sides_are_named() -> None:
    chart = waterfall(series_of(compared()[1]))
    assert chart is not None
    assert all("old: " in row["request"] for row in chart.spec["layer"][0]["data"]["values"])


def test_what_the_server_says_is_in_the_tooltip() -> None:
    chart = waterfall(series_of([measurement(server=Server(ledger=True))]))
    assert chart is not None
    titles = [one["title"] for one in chart.spec["layer"][0]["encoding"]["tooltip"]]
    assert "server: prefill_ms" in titles
    assert "server: preemptions" not in titles, "it is 0 everywhere"


def test_only_plain_words_of_a_server_become_names() -> None:
    server: dict[str, object] = {
        "queue_ms": 3,
        "']; alert(1); ['": 4,
        "image": {"src": 5, "<b>": 6},
        "text": "seven",
        "none": 0,
    }
    record = Record("main", 0, 0, 0.0, outcome=Outcome.FINISHED, server=server)
    assert told_by(record) == {"queue_ms": 3, "image_src": 5}


def test_without_a_finished_request_there_is_no_chart() -> None:
    assert waterfall(series_of([measurement(server=Server(fails=1.0))])) is None
