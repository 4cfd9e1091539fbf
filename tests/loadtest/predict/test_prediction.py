import asyncio
import json
from dataclasses import asdict
from typing import Any

import pytest

from loadtest.errors import LoadTestError
from loadtest.experiment import GOODPUT, Experiment
from loadtest.measurement import Measurement
from loadtest.predict.prediction import Predictor
from loadtest.predict.surroundings import Surroundings
from loadtest.scenario import Scenario
from loadtest.search import Goodput, Verdict
from tests.support.predicted import costs

TABLE: dict[str, Any] = {
    "name": "trial",
    "description": "both",
    "warmup": 1,
    "pairs": 2,
    "loads": [
        {
            "sessions": 60,
            "workload": {
                "kind": "synthetic",
                "prompt_tokens": {"kind": "uniform", "low": 20, "high": 100},
                "output_tokens": {"kind": "uniform", "low": 4, "high": 12},
            },
            "arrivals": {"kind": "poisson", "rate": 5.0},
        }
    ],
    "targets": {"ttft_ms": 150, "tpot_ms": 20},
    "sides": [
        {"name": "apart", "topology": "1p1d"},
        {"name": "together", "topology": "aggregated-2"},
    ],
}
SEARCH = {"kind": "goodput", "low": 1, "high": 200, "precision": 0.1}


def scenario(**changes: object) -> Scenario:
    return Scenario.model_validate(TABLE | changes)


def predictor(of: Scenario) -> Predictor:
    return Predictor.of_sides(of.sides, costs(), Surroundings())


def as_text(found: Measurement) -> str:
    return json.dumps([asdict(record) for record in found.records], default=str)


@pytest.mark.parametrize("side", ["apart", "together"])
def test_equal_seeds_give_equal_records_and_others_do_not(side: str) -> None:
    trial = scenario()
    first, again, other = (predictor(trial).predict(side, trial, seed) for seed in (3, 3, 4))
    assert as_text(first) == as_text(again)
    assert as_text(first) != as_text(other)
    assert len(first.records) == 60


def test_a_prediction_tells_how_busy_each_worker_was() -> None:
    trial = scenario()
    found = predictor(trial).predict("apart", trial, 0)
    assert found.server.keys() == {"busy.prefill-0", "busy.decode-0"}
    assert all(0 < share < 1 for share in found.server.values())


def test_more_load_is_never_served_better() -> None:
    trial = scenario()
    attained = [
        next(iter(predictor(trial).predict("apart", trial.at_rate(rate), 0).loads().values()))
        for rate in (2.0, 20.0, 60.0)
    ]
    shares = [one.attainment or 0.0 for one in attained]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.95 > 0.3 > shares[-1]


def test_a_comparison_of_searches_ends_and_claims_are_judged() -> None:
    claim = {"text": "x", "measure": GOODPUT, "side": "apart", "against": "together"}
    trial = scenario(search=SEARCH, claims=[claim | {"at_least": 0.01}])
    experiment = Experiment(trial, 0, predictor(trial).measure)
    asyncio.run(predictor(trial).carry_out(experiment))
    comparison = experiment.comparison()
    assert comparison is not None
    assert comparison.sides == ("apart", "together")
    assert comparison.claims[0].holds
    assert comparison.exit_code(None) == 0


def test_a_scenario_without_sides_is_searched_alone() -> None:
    trial = scenario(search=SEARCH)
    found = predictor(trial.model_copy(update={"sides": trial.sides[:1]}))
    experiment = Experiment(trial.model_copy(update={"sides": ()}), 0, found.measure)
    asyncio.run(found.carry_out(experiment))
    assert isinstance(experiment.search, Goodput)
    assert experiment.search.verdict is Verdict.FOUND
    assert experiment.comparison() is None


def test_its_target_says_that_nothing_was_measured() -> None:
    assert predictor(scenario()).target == "predicted from round numbers: apart, together"


def test_faults_are_not_predicted() -> None:
    trial = scenario(faults=[{"at_s": 1, "action": "kill", "process": "decode"}])
    with pytest.raises(LoadTestError, match="faults are not predicted"):
        predictor(trial).predict("apart", trial, 0)
