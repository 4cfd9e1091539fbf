import pytest

from common.engine.bench.parts import prefill
from common.engine.bench.rig import Rig
from tests.support.bench_rig import TINY


def test_a_row_for_each_length_and_one_on_a_cached_prefix(rig: Rig) -> None:
    plain, continued = prefill.rows(rig, TINY)
    assert (plain.case, continued.case) == ("40", "8 on 40")
    assert plain.value == pytest.approx(40 / plain.timing.seconds)
    assert continued.value == pytest.approx(8 / continued.timing.seconds)


def test_what_is_cached_is_read_and_not_computed(rig: Rig) -> None:
    plain, continued = prefill.rows(rig, TINY)
    assert continued.work.flops < plain.work.flops / 3
    kv = continued.work.bytes - rig.needs.weight_bytes
    assert kv == (48 + 8) * rig.needs.token_bytes


def test_long_prompts_come_in_the_engines_chunks_and_draw_once(rig: Rig) -> None:
    chunks = prefill._chunks(rig, 1100, 0)
    assert [len(chunk.tokens) for chunk in chunks] == [512, 512, 76]
    assert [len(chunk.draws) for chunk in chunks] == [0, 0, 1]
    assert chunks[2].positions[0] == 1024
