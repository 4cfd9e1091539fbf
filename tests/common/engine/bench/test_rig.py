import mmap

import numpy as np
import pytest

from common.domain.block import Dtype
from common.engine.bench.pieces import Piece
from common.engine.bench.rig import Rig, _fill
from common.engine.bench.timing import Repeats


@pytest.mark.parametrize(
    ("dtype", "stored"), [("float32", np.float32), ("float16", np.float16), ("bfloat16", None)]
)
def test_a_pool_is_full_of_finite_numbers(dtype: Dtype, stored: type | None) -> None:
    memory = mmap.mmap(-1, (1 << 24) + 4096)
    _fill(memory, dtype)
    if stored is None:
        values = (np.frombuffer(memory, dtype=np.uint16).astype(np.uint32) << 16).view(np.float32)
    else:
        values = np.frombuffer(memory, dtype=stored).astype(np.float32)
    assert np.isfinite(values).all()
    assert 0.9 < values.std() < 1.1
    assert np.abs(values[-512:]).max() > 0.1


def test_tables_share_what_was_asked_for(rig: Rig) -> None:
    tables = np.stack(rig.tables(4, 100, shared=70))
    assert (tables[:, :2] == tables[0, :2]).all()
    assert len(np.unique(tables[:, 2:])) == 8


def test_tables_share_no_slot(rig: Rig) -> None:
    tables = rig.tables(4, 100)
    assert [len(table) for table in tables] == [4, 4, 4, 4]
    assert len(set(np.concatenate(tables).tolist())) == 16
    assert np.concatenate(tables).tolist() != sorted(np.concatenate(tables).tolist())


def test_no_two_prompts_are_alike(rig: Rig) -> None:
    prompts = rig.prompts(3, 20) + rig.prompts(2, 20)
    assert len({tuple(prompt) for prompt in prompts}) == 5


def test_a_measurement_leaves_its_first_run_out(rig: Rig) -> None:
    (table,) = rig.tables(1, 40)
    runs: list[object] = []
    step = rig.step([Piece(table, [5, 6], 30, 1)])
    measured = rig.measure(lambda: runs.append(step()), Repeats(3, 0.0))
    assert len(runs) == 4
    assert measured.timing.repeats == 3
    assert measured.steps == 1
    assert measured.forward_seconds > 0
    assert measured.work.bytes == rig.needs.weight_bytes + (32 + 2) * rig.needs.token_bytes
