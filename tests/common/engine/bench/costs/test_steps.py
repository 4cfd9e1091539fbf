from common.engine.bench.costs.steps import FITTED, JUDGED, Step
from common.engine.bench.pieces import batch_of
from common.engine.bench.rig import Rig
from loadtest.predict.simulated_runner import shape_of


def test_a_step_is_the_batch_that_its_shape_says(rig: Rig) -> None:
    for step in (Step(tokens=20), Step(tokens=8, cached=16), Step(2, 24), Step(2, 24, 8, 8)):
        assert shape_of(batch_of(step.pieces(rig))) == step.shape


def test_a_step_needs_blocks_for_its_longest_sequence() -> None:
    assert Step(rows=2, context=33, tokens=40, cached=30).blocks(32) == 3 * 3


def test_what_judges_was_not_fitted() -> None:
    assert not {step.shape for step in FITTED} & {
        step.shape for step in JUDGED if step.tokens or step.rows > 1
    }
