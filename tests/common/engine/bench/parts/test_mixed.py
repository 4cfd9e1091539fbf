from common.engine.bench.parts import mixed
from common.engine.bench.rig import Rig
from tests.support.bench_rig import TINY


def test_a_long_prompt_among_streams(rig: Rig) -> None:
    (row,) = mixed.rows(rig, TINY)
    assert row.case == "2 streams, 40 arrive"
    assert row.unit == "ms"
    assert row.details["idle_gap_ms"] > 0
    assert 0 < row.value <= row.timing.seconds * 1e3
    assert 0 < row.details["long_first_token_ms"] <= row.timing.seconds * 1e3
