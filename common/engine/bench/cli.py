"""`make bench-engine`: one process for each thread count, then one JSON file and the tables."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from common.checkpoint.checkpoint import open_checkpoint
from common.checkpoint.default_model import model_name
from common.engine.bench.backend import RunnerChoice
from common.engine.bench.machine import machine
from common.engine.bench.options import add_engine_options, runner_choice
from common.engine.bench.parts import PARTS
from common.engine.bench.report import WIDTH, tables
from common.engine.bench.revision import revision
from common.engine.bench.spec import Spec


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="common.engine.bench", description=__doc__)
    add_engine_options(parser)
    parser.add_argument("--threads", default=[1, 2], type=_numbers, help="1,2")
    parser.add_argument("--only", default=list(PARTS), type=_parts, help=",".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer repetitions")
    parser.add_argument("--json", type=Path, help="where to write the result")
    return parser.parse_args(arguments)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _parts(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(PARTS):
        raise argparse.ArgumentTypeError(f"{sorted(unknown)}: there are {', '.join(PARTS)}")
    return names


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    choices = [runner_choice(options, threads) for threads in options.threads]
    specs = [Spec(choice, tuple(options.only), options.quick) for choice in choices]
    try:
        runs = [_run(spec) for spec in specs]
    except subprocess.CalledProcessError as error:
        Console(stderr=True).print(f"what it said stands above: {error}")
        return 1
    result = {**_about(choices[0]), "quick": options.quick, "runs": runs}
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    console = Console(width=WIDTH)
    for table in tables(result):
        console.print(table)
    return 0


def _about(choice: RunnerChoice) -> dict[str, object]:
    checkpoint = open_checkpoint(choice.model, choice.cache)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "revision": revision(),
        "model": {"name": model_name(choice.model), "digest": checkpoint.digest()},
    }


def _run(spec: Spec) -> dict[str, Any]:
    """Its progress goes to our standard error. Thread pools read their size from the environment
    when they are loaded, so that a process is needed for each."""
    done = subprocess.run(
        [sys.executable, "-m", "common.engine.bench.child", spec.to_json()],
        env={**os.environ, "OMP_NUM_THREADS": str(spec.choice.threads)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
