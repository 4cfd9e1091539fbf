from pathlib import Path

from common.engine.bench.backend import RunnerChoice
from common.engine.bench.spec import Spec


def test_a_spec_survives_the_way_to_another_process() -> None:
    choice = RunnerChoice("native", "bf16", 2, Path("/m"), Path("/c"), block_tokens=16)
    spec = Spec(choice, ("decode", "warm"), quick=True)
    assert Spec.from_json(spec.to_json()) == spec
