"""One seed, one trace: whatever the run, the process, or the hash seed of the interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sim.scenario import Scenario, run

ROOT = Path(__file__).parents[2]
SEED, OTHER = 4, 5
SECONDS = 15.0
SCRIPT = f"""
from tests.support.sim.scenario import Scenario, run
print(run(Scenario({SEED}, faults=True, seconds={SECONDS})).trace.digest())
"""

pytestmark = pytest.mark.sim


def digest(seed: int) -> str:
    return run(Scenario(seed, faults=True, seconds=SECONDS)).trace.digest()


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    assert digest(SEED) == digest(SEED)
    assert digest(SEED) != digest(OTHER)


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_the_trace_does_not_depend_on_the_process(hash_seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == digest(SEED)


def test_the_trace_tells_of_faults_and_of_endings() -> None:
    """A hash over too little would be equal for the wrong reason."""
    quiet = run(Scenario(SEED, faults=False, seconds=SECONDS))
    assert quiet.trace.digest() != digest(SEED)
    assert quiet.trace.events > 500
