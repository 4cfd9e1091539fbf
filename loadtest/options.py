"""Options that several commands share, and what they mean."""

import argparse
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import tokenizers

from loadtest.contenders import Access
from loadtest.errors import LoadTestError
from loadtest.library import load_scenario
from loadtest.scenario import Scenario
from loadtest.writer import ExactWriter, WordWriter, Writer

ROOT = Path(__file__).parent.parent
SIDES = ROOT / "build" / "loadtest" / "sides"
"""Run folders of clusters that are started for a side, in a folder for each load test, by its
process id: two may have sides of one name."""
SEEDS = 10**7
"""From so many one is drawn."""
_SHORT = {
    "rate": "loads.0.arrivals.rate",
    "users": "loads.0.arrivals.users",
    "sessions": "loads.0.sessions",
    "seconds": "loads.0.seconds",
    "ttft_ms": "targets.ttft_ms",
    "tpot_ms": "targets.tpot_ms",
    "pairs": "pairs",
}
"""Options for what is changed most, and the keys they stand for."""


def add_scenario(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scenario", default="chat", help="a name in scenarios/, or a TOML file")
    for name in _SHORT:
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, dest=name, type=float, metavar="N", help=f"sets {_SHORT[name]}")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="sets any other key of the scenario, as request.endpoint=completions",
    )
    parser.add_argument(
        "--seed",
        type=int,
        help="asks for the same things as the call that printed it. Without, one is drawn, so that"
        " no server has the prompts in its cache",
    )


def drawn_seed() -> int:
    return secrets.randbelow(SEEDS)


def chosen_scenario(options: argparse.Namespace) -> Scenario:
    """Raises LoadTestError."""
    scenario = load_scenario(options.scenario, options.set)
    _check_arrivals(options, scenario)
    return load_scenario(options.scenario, [*options.set, *_changes(options)])


def _check_arrivals(options: argparse.Namespace, scenario: Scenario) -> None:
    """Says more than that there is no such key."""
    load = scenario.loads[0]
    for name in ("rate", "users"):
        if getattr(options, name) is None:
            continue
        if scenario.search is not None:
            raise LoadTestError(
                f"--{name}: the scenario's search chooses it; change that by --set search.KEY=VALUE"
            )
        if name not in type(load.arrivals).model_fields:
            raise LoadTestError(
                f"--{name}: the arrivals of load {load.name!r} are of kind {load.arrivals.kind!r},"
                f" which has no {name}; for other arrivals:"
                " --set 'loads.0.arrivals={kind=\"poisson\", rate=2}'"
            )


def _changes(options: argparse.Namespace) -> Iterator[str]:
    for name, key in _SHORT.items():
        value = getattr(options, name)
        if value is not None:
            yield f"{key}={value!r}"


def add_access(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="", help="name to ask for; for clusters: file or folder")
    parser.add_argument(
        "--api-key-env",
        default="OPENAI_API_KEY",
        metavar="NAME",
        help="variable that holds the key, so that it is in no command line",
    )
    parser.add_argument(
        "--tokenizer",
        type=Path,
        metavar="FILE",
        help="tokenizer.json of the model: prompts get exactly their lengths. Without, a common"
        " word counts as a token",
    )
    parser.add_argument("--run", type=Path, default=ROOT / ".run", help="folder of make up")
    parser.add_argument("--out", type=Path, help="folder of the results")


def access_of(options: argparse.Namespace) -> Access:
    return Access(
        run_folder=options.run,
        side_folder=SIDES / str(os.getpid()),
        model=options.model,
        api_key=os.environ.get(options.api_key_env, ""),
    )


def writer_of(options: argparse.Namespace) -> Writer:
    if options.tokenizer is None:
        return WordWriter()
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(options.tokenizer))
    except Exception as error:  # noqa: BLE001  the library raises nothing narrower
        raise LoadTestError(f"{options.tokenizer}: no tokenizer: {error}") from None
    return ExactWriter(lambda text: len(tokenizer.encode(text, add_special_tokens=False)))


def share(text: str) -> float:
    """`5%` or `0.05`."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no share: give 5% or 0.05") from None
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 100 %")
    return value
