"""What `python -m loadtest predict` is told, and what it predicts with."""

import argparse
from dataclasses import fields, replace
from pathlib import Path

from common.engine.bench.costs.step_costs import StepCosts, UnreadableCosts, read_costs
from loadtest.errors import LoadTestError
from loadtest.options import ROOT, add_scenario, share
from loadtest.predict.prediction import Predictor
from loadtest.predict.surroundings import Surroundings
from loadtest.scenario import Scenario, Side

ONLY = "predicted"
"""Name of the only side."""
_AROUND = {
    "cpu_us_a_token": "CPU of all processes but engines for a token",
    "cpu_us_a_request": "CPU of them for a request",
    "cpu_s_a_s": "CPU of them in every second",
    "request_ms": "from the client to an engine",
    "hop_ms": "from worker to worker",
    "transfer_gb_s": "how fast KV is copied",
    "transfer_ms": "what each copy takes beside that",
    "cpu_s_a_gb": "CPU of a copy",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    add_scenario(parser)
    parser.add_argument(
        "--costs",
        default=str(ROOT / "build" / "costs.json"),
        metavar="FILE[#MODEL@GPUS]",
        help="what `make bench-costs` wrote, or a profile of DistServe's simulator and which of its"
        " models",
    )
    parser.add_argument(
        "--topology", default="1p1d", help="of a scenario that names no sides to compare"
    )
    defaults = Surroundings()
    for name, told in _AROUND.items():
        default = getattr(defaults, name)
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=float, metavar="N", help=f"{told} ({default:g})"
        )
    parser.add_argument("--out", type=Path, help="folder of the results")
    parser.add_argument("--fail-over", type=share, metavar="SHARE", help="as `run` has it")


def predictor_of(options: argparse.Namespace, scenario: Scenario) -> Predictor:
    """Of the scenario's sides, or of the one topology that was asked for. Raises LoadTestError."""
    sides = scenario.sides or (Side(name=ONLY, topology=options.topology),)
    return Predictor.of_sides(sides, _costs(options.costs), _around(options))


def _costs(words: str) -> StepCosts:
    try:
        return read_costs(words)
    except UnreadableCosts as error:
        raise LoadTestError(str(error)) from None


def _around(options: argparse.Namespace) -> Surroundings:
    given = {field.name: getattr(options, field.name) for field in fields(Surroundings)}
    if any(value is not None and value < 0 for value in given.values()):
        raise LoadTestError("what lies around the engines is not negative")
    if given["transfer_gb_s"] == 0:
        raise LoadTestError("--transfer-gb-s: nothing would ever arrive")
    return replace(Surroundings(), **{k: v for k, v in given.items() if v is not None})
