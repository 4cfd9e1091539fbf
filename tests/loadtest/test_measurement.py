"""Every figure has one name, and that name says which way is better."""

import pytest

from loadtest.measurement import ALL, Measurement, better
from loadtest.metrics import Targets
from loadtest.record import Outcome, Record


def answered(load: str, ttft_s: float, *, session: int = 0) -> Record:
    return Record(
        load=load,
        session=session,
        turn=0,
        scheduled_s=0.0,
        sent_s=0.0,
        ended_s=ttft_s + 1.0,
        outcome=Outcome.FINISHED,
        chunks_s=[ttft_s, ttft_s + 1.0],
        prompt_tokens=10,
        output_tokens=2,
    )


def measured(*records: Record, targets: Targets | None = None) -> Measurement:
    return Measurement(
        side="here",
        seed=1,
        targets=targets or Targets(),
        records=list(records),
        server={"kv_waste": 0.25},
    )


def test_one_load_stands_for_all() -> None:
    assert list(measured(answered("main", 1.0)).loads()) == ["main"]


def test_several_loads_are_measured_apart_and_together() -> None:
    loads = measured(answered("b", 1.0), answered("a", 3.0), answered("b", 2.0)).loads()
    assert list(loads) == ["b", "a", ALL]
    assert [one.issued for one in loads.values()] == [2, 1, 3]
    assert loads["b"].distributions["ttft_ms"].max == 2000
    assert loads[ALL].distributions["ttft_ms"].max == 3000


def test_what_settles_does_not_count() -> None:
    settling = answered("main-settling", 9.0)
    measurement = measured(settling, answered("main", 1.0))
    assert settling in measurement.records
    assert settling not in measurement.counted
    loads = measurement.loads()
    assert list(loads) == ["main"]
    assert loads["main"].distributions["ttft_ms"].max == 1000


def test_names_are_load_measure_and_stat() -> None:
    values = measured(answered("main", 1.0), answered("main", 3.0)).values()
    assert values["main.ttft_ms.p50"] == 2000
    assert values["main.itl_token_ms.max"] == 1000
    assert values["main.issued"] == 2
    assert values["main.misses"] == 0
    assert values["main.output_tokens_s"] == 1
    assert values["server.kv_waste"] == 0.25


def test_what_does_not_exist_has_no_name() -> None:
    values = measured(answered("main", 1.0)).values()
    assert not {"main.attainment", "main.goodput", "main.cached_share"} & values.keys()
    assert not any(name.startswith("all.") for name in values)
    assert "main.outcomes" not in values


def test_targets_give_attainment_and_goodput() -> None:
    records = answered("main", 1.0), answered("main", 3.0)
    values = measured(*records, targets=Targets(ttft_ms=1500)).values()
    assert values["main.attainment"] == 0.5
    assert values["main.goodput"] == 1 / 4


def test_every_figure_is_a_finite_float() -> None:
    values = measured(answered("main", 1.0)).values()
    assert all(type(value) is float for value in values.values())


@pytest.mark.parametrize(
    ("name", "ratio", "expected"),
    [
        ("main.ttft_ms.p50", 0.5, True),
        ("main.ttft_ms.p50", 2.0, False),
        ("main.output_tokens_s", 2.0, True),
        ("main.output_tokens_s", 0.5, False),
        ("all.attainment", 1.1, True),
        ("search.goodput", 1.1, True),
        ("search.knee", 1.1, True),
        ("all.misses", 1.1, False),
        ("server.kv_waste", 0.5, True),
        ("main.ttft_ms.p50", 1.0, None),
        ("main.issued", 2.0, None),
        ("server.steps", 2.0, None),
    ],
)
def test_which_way_is_better_follows_from_the_name(
    name: str, ratio: float, *, expected: bool | None
) -> None:
    assert better(name, ratio) is expected
