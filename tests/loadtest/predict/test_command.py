import argparse
import json
from pathlib import Path

import pytest

from loadtest.errors import LoadTestError
from loadtest.library import load_scenario
from loadtest.predict.command import ONLY, add_options, predictor_of
from loadtest.predict.surroundings import Surroundings

PROFILE = {
    "facebook/opt-13b": {
        "1": {
            "decoding_large_small_bs_threshold": 95,
            "prefill": [18.0, 0.1, 7e-06],
            "decoding_smallbs": [20.0, 0.0006, 0.04],
            "decoding_largebs": [7.0, 0.0006, 0.16],
        }
    }
}


@pytest.fixture
def costs(tmp_path: Path) -> str:
    place = tmp_path / "a100.json"
    place.write_text(json.dumps(PROFILE))
    return str(place)


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(arguments)


def test_a_scenario_without_sides_is_predicted_for_one_topology(costs: str) -> None:
    found = predictor_of(options("--costs", costs, "--topology", "2p2d"), load_scenario("chat"))
    assert len(found.plans[ONLY].prefill) == 2
    assert found.target == "predicted from a100.json, facebook/opt-13b, 1 GPUs a worker: predicted"


def test_what_lies_around_the_engines_can_be_told(costs: str) -> None:
    given = options("--costs", costs, "--hop-ms", "3", "--cpu-us-a-token", "0")
    assert predictor_of(given, load_scenario("chat")).around == Surroundings(
        hop_ms=3.0, cpu_us_a_token=0.0
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--hop-ms", "-1"), "not negative"),
        (("--transfer-gb-s", "0"), "nothing would ever arrive"),
        (("--topology", "nope"), "no topology 'nope'"),
    ],
)
def test_what_makes_no_sense_is_said(costs: str, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(LoadTestError, match=message):
        predictor_of(options("--costs", costs, *arguments), load_scenario("chat"))


def test_costs_that_are_not_there_say_how_to_get_them(tmp_path: Path) -> None:
    given = options("--costs", str(tmp_path / "none.json"))
    with pytest.raises(LoadTestError, match="`make bench-costs` writes one"):
        predictor_of(given, load_scenario("chat"))
