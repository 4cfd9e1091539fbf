import pytest

from common.engine.bench.parts import warm
from common.engine.bench.rig import Rig
from tests.support.bench_rig import TINY


def test_all_but_the_last_block_of_the_prompt_is_cached(rig: Rig) -> None:
    (row,) = warm.rows(rig, TINY)
    assert row.details["cached_tokens"] == 64
    assert row.value == pytest.approx(row.timing.seconds * 1e3)
    assert row.work.bytes == rig.needs.weight_bytes + (70 + 6) * rig.needs.token_bytes
