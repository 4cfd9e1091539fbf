import pytest

from common.engine.bench.parts import verify
from common.engine.bench.rig import Rig
from tests.support.bench_rig import TINY


def test_several_rows_are_related_to_one(rig: Rig) -> None:
    rows = list(verify.rows(rig, TINY))
    assert [row.case for row in rows] == [
        "batch 1, 2 rows each",
        "batch 1, 4 rows each",
        "batch 2, 2 rows each",
        "batch 2, 4 rows each",
    ]
    for row in rows:
        assert row.value == pytest.approx(row.details["ms"] / row.details["one_ms"])


def test_every_row_is_drawn_from(rig: Rig) -> None:
    rows = list(verify.rows(rig, TINY))
    assert rows[1].work.flops == pytest.approx(2 * rows[0].work.flops, rel=0.02)
