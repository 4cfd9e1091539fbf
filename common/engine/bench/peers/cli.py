"""`make bench-peers`: the same workload on other engines, interleaved with ours, as ratios.

Each peer is installed by whoever wants to know, in a virtual environment of its own; what has none
is reported as not measured. Ours stays loaded, peers come one after the other.
"""

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console

from common.checkpoint.checkpoint import open_checkpoint
from common.engine.bench.backend import RunnerChoice
from common.engine.bench.machine import load_average, machine
from common.engine.bench.options import add_engine_options, runner_choice
from common.engine.bench.peers.adapters import ADAPTERS, OURS
from common.engine.bench.peers.cases import FULL, KINDS, QUICK, Case
from common.engine.bench.peers.pairs import Comparison, compare
from common.engine.bench.peers.peer_process import PeerFailed, PeerOrder, PeerProcess
from common.engine.bench.peers.peers_report import as_json, peers_table
from common.engine.bench.report import WIDTH
from common.engine.bench.revision import revision


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="common.engine.bench.peers", description=__doc__)
    add_engine_options(parser)
    for flag, meaning in (
        ("--venv", "llama=/path of a virtual environment"),
        ("--peer-model", "vllm=/path, where it reads another format"),
        ("--env", "vllm.LD_PRELOAD=/path, for that peer alone"),
    ):
        parser.add_argument(flag, action="append", default=[], type=_named, help=meaning)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3, help="pairs of each case")
    parser.add_argument(
        "--pause", type=float, default=0.5, help="seconds before a run: threads spin after another"
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", choices=KINDS, default=KINDS, help="kinds of cases")
    parser.add_argument("--json", type=Path, help="where to write the result")
    options = parser.parse_args(arguments)
    for name in (*dict(options.venv), *dict(options.peer_model)):
        if name not in ADAPTERS or name == OURS:
            parser.error(f"{name!r} is no peer: there are {', '.join(peer_names())}")
    return options


def _named(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} should be NAME=VALUE")
    return name, value


def peer_names() -> list[str]:
    return [name for name in ADAPTERS if name != OURS]


def orders(options: argparse.Namespace, choice: RunnerChoice) -> list[PeerOrder]:
    models = dict(options.peer_model)
    return [
        PeerOrder(
            name=name,
            python=Path(venv) / "bin" / "python",
            adapter=ADAPTERS[name],
            model=Path(models.get(name, choice.model)),
            threads=choice.threads,
            environment=_environment(options, name),
        )
        for name, venv in options.venv
    ]


def _environment(options: argparse.Namespace, name: str) -> dict[str, str]:
    split = [(*key.partition(".")[::2], value) for key, value in options.env]
    return {variable: value for peer, variable, value in split if peer == name}


def chosen(options: argparse.Namespace) -> list[Case]:
    return [case for case in (QUICK if options.quick else FULL) if case.kind in options.only]


def our_order(choice: RunnerChoice) -> PeerOrder:
    named = {
        "engine": choice.engine,
        "arithmetic": choice.arithmetic,
        "cache": str(choice.cache),
    }
    # As a worker does it; read when OpenMP is loaded.
    policy = {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE")}
    python = Path(sys.executable)
    return PeerOrder(OURS, python, ADAPTERS[OURS], choice.model, choice.threads, named, policy)


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    choice = runner_choice(options, options.threads)
    cases = chosen(options)
    busy = load_average()
    measured = _measure(options, choice, cases)
    console = Console(width=WIDTH)
    console.print(peers_table(cases, measured.found, measured.peers))
    for failure in measured.failures.values():
        console.print(failure)
    if options.json is not None:
        result = {**_about(choice), "load_average": [busy, load_average()], **measured.as_json()}
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if measured.failures else 0


@dataclass(slots=True)
class _Measured:
    peers: dict[str, str | None]
    """What each says about itself; None where it was not measured."""
    found: list[Comparison] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        return {
            "peers": self.peers,
            "failures": self.failures,
            "comparisons": [as_json(one) for one in self.found],
        }


def _measure(options: argparse.Namespace, choice: RunnerChoice, cases: Sequence[Case]) -> _Measured:
    measured = _Measured(dict.fromkeys(peer_names()))
    if not options.venv:
        return measured
    vocab = open_checkpoint(choice.model, choice.cache).config.vocab
    seeds = itertools.count()
    with PeerProcess(our_order(choice)) as ours:
        for order in orders(options, choice):
            plan = [(case, list(itertools.islice(seeds, options.repeats + 1))) for case in cases]
            try:
                with PeerProcess(order) as peer:
                    measured.peers[order.name] = peer.about
                    measured.found += _compared(ours, peer, plan, vocab, options.pause)
            except PeerFailed as error:
                if ours.ended:
                    raise
                measured.failures[order.name] = str(error)
    return measured


def _compared(
    ours: PeerProcess,
    peer: PeerProcess,
    plan: Sequence[tuple[Case, Sequence[int]]],
    vocab: int,
    pause_s: float,
) -> list[Comparison]:
    def run(side: PeerProcess, case: Case, seed: int) -> float | None:
        time.sleep(pause_s)
        return side.run(case, seed, vocab)

    say = Console(stderr=True, highlight=False)
    done: list[Comparison] = []
    for one in compare(
        peer.name,
        plan,
        partial(run, ours),
        partial(run, peer),
    ):
        say.print(f"{peer.name}: {one.case.name}: {one.ratio}")
        done.append(one)
    return done


def _about(choice: RunnerChoice) -> dict[str, object]:
    ours = {
        "engine": choice.engine,
        "arithmetic": choice.arithmetic,
        "threads": choice.threads,
    }
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "revision": revision(),
        "model": choice.model.name,
        "ours": ours,
    }
