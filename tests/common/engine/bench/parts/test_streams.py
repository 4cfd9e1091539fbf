from common.engine.bench.parts import streams
from common.engine.bench.rig import Rig
from tests.support.bench_rig import TINY


def test_streams_together_go_through_the_engine(rig: Rig) -> None:
    (row,) = streams.rows(rig, TINY)
    assert row.case == "3 streams"
    assert row.details["steps"] == 5, "one for the three prompts, four for the other tokens"
    assert row.details["outside_forward_ms_a_step"] > 0
    assert row.details["decode_tokens_s"] > 0
    assert 0 < row.value < 3 * 5 / row.timing.seconds * 1.5
