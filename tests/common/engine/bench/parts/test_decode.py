import pytest

from common.engine.bench.parts import decode
from common.engine.bench.rig import Rig
from tests.support.bench_rig import TINY


def test_a_row_for_each_context_and_batch(rig: Rig) -> None:
    one, three, _ = decode.rows(rig, TINY)
    assert (one.case, three.case) == ("batch 1, context 40", "batch 3, context 40")
    assert three.value == pytest.approx(three.timing.seconds * 1e3)
    assert three.details["tokens_s"] == pytest.approx(3 / three.timing.seconds)


def test_each_sequence_reads_its_own_context(rig: Rig) -> None:
    one, three, sharing = decode.rows(rig, TINY)
    weights = rig.needs.weight_bytes
    assert one.work.bytes - weights == (40 + 1) * rig.needs.token_bytes
    assert three.work.bytes - weights == 3 * (one.work.bytes - weights)
    # 32 of 40 tokens are read once for both.
    assert sharing.work.bytes - weights == (32 + 8 + 8 + 2) * rig.needs.token_bytes
