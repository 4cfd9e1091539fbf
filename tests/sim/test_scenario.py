"""Many seeds of load and trouble on a whole cluster: SIM_SEEDS=1000 make sim for more of them.

The first seed is SIM_FIRST (0). A failure names its seed and ends with the last log lines of all
processes, in virtual time.
"""

import os

import pytest

from tests.support.sim.scenario import Scenario, run

FIRST = int(os.environ.get("SIM_FIRST", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("SIM_SEEDS", "20")))
QUIET_SEEDS = SEEDS[: max(1, len(SEEDS) // 4)]
"""Faults are most of what can go wrong; a few runs without any show that they are not needed."""

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("seed", SEEDS)
def test_every_request_ends_once_and_rightly_and_nothing_is_left_whatever_dies(seed: int) -> None:
    scenario = Scenario(seed, faults=True)
    report = run(scenario)
    assert not report.problems, report.told(scenario)
    assert report.finished > len(report.outcomes) / 4, f"{scenario}: too much trouble to see much"


@pytest.mark.parametrize("seed", QUIET_SEEDS)
def test_without_faults_every_request_is_served(seed: int) -> None:
    scenario = Scenario(seed)
    report = run(scenario)
    assert not report.problems, report.told(scenario)
    assert report.finished + report.left == len(report.outcomes) > 10, scenario
