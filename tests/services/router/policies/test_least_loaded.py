"""Sequences before work before blocks."""

import pytest

from services.router.placement import Candidate, Stage, WorkerLoad, need_of
from services.router.policies.least_loaded import LeastLoaded
from tests.support.router_world import BLOCK_TOKENS, process, submit

NEED = need_of(submit("r"), BLOCK_TOKENS)


@pytest.mark.parametrize(
    ("light", "heavy"),
    [
        (WorkerLoad(sequences=1, pending_tokens=900), WorkerLoad(sequences=2)),
        (WorkerLoad(pending_tokens=5, blocks_used=9), WorkerLoad(pending_tokens=6)),
        (WorkerLoad(recent_tokens=5.0), WorkerLoad(pending_tokens=6)),
        (WorkerLoad(blocks_used=5), WorkerLoad(blocks_used=6)),
    ],
)
@pytest.mark.parametrize("stage", Stage)
def test_the_lighter_one_is_taken(light: WorkerLoad, heavy: WorkerLoad, stage: Stage) -> None:
    one, two = Candidate(process("a"), heavy, device_units=9), Candidate(process("b"), light)
    assert LeastLoaded(lambda n: 0).choose(stage, NEED, [one, two]) is two
    assert LeastLoaded(lambda n: 0).choose(stage, NEED, [two, one]) is two


def test_the_first_of_equals_is_taken() -> None:
    equals = [Candidate(process(name), WorkerLoad()) for name in "abc"]
    assert LeastLoaded(lambda n: 2).choose(Stage.DECODE, NEED, equals) is equals[0]
