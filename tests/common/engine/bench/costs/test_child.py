from common.engine.bench.costs.child import CONDITIONS, measure_rounds
from common.engine.bench.costs.steps import Step
from common.engine.bench.rig import Rig

STEPS = (Step(tokens=8), Step(rows=2, context=16))


def test_all_steps_are_measured_in_every_condition_of_every_round(rig: Rig) -> None:
    told: list[str] = []
    took = measure_rounds(rig, told.append, STEPS, least=2, seconds=0.0)
    assert told == list(CONDITIONS.values()) * 2
    assert len(took) == len(STEPS)
    for one in took:
        assert one.keys() == CONDITIONS.keys()
        assert all(len(times) == 2 and min(times) > 0 for times in one.values())


def test_what_was_noted_is_forgotten(rig: Rig) -> None:
    measure_rounds(rig, lambda word: None, STEPS, least=1, seconds=0.0)
    assert rig.runner.take().batches == []
