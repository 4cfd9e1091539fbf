"""Command-line options that every program of this package has: which engine, which model."""

import argparse
import os
from pathlib import Path

from common.checkpoint.default_model import resolve_model
from common.engine.bench.backend import BACKENDS, RunnerChoice


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", choices=BACKENDS, default="native")
    parser.add_argument("--arithmetic", default="", help="as the engine names it")
    parser.add_argument("--model", default="", help="GGUF file, Hugging Face folder, or 'default'")


def cache_folder() -> Path:
    return Path(os.environ.get("TWINFLEET_CACHE", "~/.cache/twinfleet")).expanduser()


def runner_choice(options: argparse.Namespace, threads: int) -> RunnerChoice:
    """Fetches the default model when it is asked for and not there."""
    known = BACKENDS[options.engine].weight_bytes
    return RunnerChoice(
        engine=options.engine,
        arithmetic=options.arithmetic or next(iter(known)),
        threads=threads,
        model=resolve_model(options.model or os.environ.get("TWINFLEET_MODEL", ""), cache_folder()),
        cache=cache_folder(),
    )
