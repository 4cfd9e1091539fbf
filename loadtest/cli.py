"""The commands: python -m loadtest run | compare | predict | report | list | selfcheck.

`run` measures one server, or, for a scenario with sides, each of them on a cluster of its own, in
turn. `compare A B` takes two addresses or two topologies. Whatever a person can put right is a
message and exit status 2; a claim that is missed, or a B that is worse than allowed, is status 1.
Whatever ends a call, also Ctrl-C, what was measured until then is written and shown.
"""

import argparse
import os
import resource
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from loadtest.console import print_summary
from loadtest.contenders import of_sides, of_words
from loadtest.errors import LoadTestError
from loadtest.experiment import Contender, Experiment
from loadtest.library import load_scenario, scenario_names
from loadtest.live import shown
from loadtest.options import (
    ROOT,
    access_of,
    add_access,
    add_scenario,
    chosen_scenario,
    drawn_seed,
    share,
    writer_of,
)
from loadtest.origin import origin_of
from loadtest.predict.command import add_options as add_predict
from loadtest.predict.command import predictor_of
from loadtest.report.page import write_report
from loadtest.results import REPORT, read_results, write_results
from loadtest.run import measure_server
from loadtest.scenario import Scenario
from loadtest.selfcheck import self_check
from loadtest.summary import Origin, summarize
from loadtest.workloads import WORKLOADS

WRONG_USE = 2
INTERRUPTED = 130
WIDTH = 120


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m loadtest", description=__doc__)
    commands = result.add_subparsers(required=True)
    run = commands.add_parser("run", help="measure one server, or all sides of a scenario")
    run.add_argument(
        "--base-url", default="", help="of an OpenAI-compatible server; else what make up started"
    )
    run.set_defaults(act=_run)
    compare = commands.add_parser("compare", help="measure two in turn, and say which is better")
    compare.add_argument("a", help="address or topology: what there is")
    compare.add_argument("b", help="address or topology: what is held against it")
    compare.set_defaults(act=_compare)
    for command in (run, compare):
        add_scenario(command)
        add_access(command)
        command.add_argument(
            "--fail-over",
            type=share,
            metavar="SHARE",
            help="5%%: status 1 where a headline figure is worse by more than this",
        )
    predict = commands.add_parser("predict", help="simulate it: the engine's own code, no model")
    add_predict(predict)
    predict.set_defaults(act=_predict)
    report = commands.add_parser("report", help="write the page of earlier results again")
    report.add_argument("folder", type=Path)
    report.set_defaults(act=_report)
    commands.add_parser("list", help="scenarios and workloads").set_defaults(act=_list)
    check = commands.add_parser("selfcheck", help="what this tool itself can do on this machine")
    check.add_argument("--streams", type=int, default=500)
    check.add_argument("--tokens-s", type=float, default=20.0, help="of each stream")
    check.add_argument("--tokens", type=int, default=200, help="of each answer")
    check.set_defaults(act=_selfcheck)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser().parse_args(given)
    options.given = given
    console = Console(width=_width())
    _allow_many_connections()
    try:
        status: int = options.act(options, console)
    except LoadTestError as error:
        print(error, file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _width() -> int | None:
    """Of a file or pipe, that nobody gave one, wide enough for the tables; else the terminal's."""
    return None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDTH


def _allow_many_connections() -> None:
    """Each stream is a file; by default a process may have a thousand or so."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _run(options: argparse.Namespace, console: Console) -> int:
    scenario, access = chosen_scenario(options), access_of(options)
    if scenario.sides and not options.base_url:
        return _compared(options, console, scenario, of_sides(scenario, access))
    if options.fail_over is not None:
        raise LoadTestError("--fail-over: one server is measured, and nothing is held against it")
    if scenario.sides:
        console.print("one server is measured, so the scenario's sides and claims are left out")
        scenario = scenario.without_sides()
    server = access.server(options.base_url or access.running_url())
    experiment = _experiment(options, console, scenario)
    origin = _origin(options, scenario, server.url)
    _carry_out(options, console, partial(experiment.alone, server), experiment, origin)
    return 0


def _compare(options: argparse.Namespace, console: Console) -> int:
    scenario = chosen_scenario(options).without_sides()
    contenders = of_words((options.a, options.b), scenario, access_of(options))
    return _compared(options, console, scenario, contenders)


def _compared(
    options: argparse.Namespace,
    console: Console,
    scenario: Scenario,
    contenders: Sequence[Contender],
) -> int:
    experiment = _experiment(options, console, scenario)
    origin = _origin(options, scenario, ", ".join(one.name for one in contenders))
    _carry_out(options, console, partial(experiment.compared, contenders), experiment, origin)
    comparison = experiment.comparison()
    assert comparison is not None
    for line in comparison.failures(options.fail_over):
        console.print(line, style="bold red", markup=False)
    return comparison.exit_code(options.fail_over)


def _predict(options: argparse.Namespace, console: Console) -> int:
    """Nothing is asked that a seed should hide from a cache, so the seed is 0 unless given."""
    scenario = chosen_scenario(options)
    predictor = predictor_of(options, scenario)
    if options.out is None:
        named = f"predicted-{scenario.name}-{time.strftime('%Y%m%d-%H%M%S')}"
        options.out = ROOT / "build" / "loadtest" / named
    experiment = Experiment(scenario, options.seed or 0, predictor.measure)
    origin = origin_of(scenario, predictor.target, predictor.costs.label, options.given)
    work = partial(predictor.carry_out, experiment)
    _carry_out(options, console, work, experiment, origin)
    console.print(f"{predictor.target}; no server was measured", style="bold", markup=False)
    comparison = experiment.comparison()
    if comparison is None:
        return 0
    for line in comparison.failures(options.fail_over):
        console.print(line, style="bold red", markup=False)
    return comparison.exit_code(options.fail_over)


def _experiment(options: argparse.Namespace, console: Console, scenario: Scenario) -> Experiment:
    if options.seed is None:
        options.seed = drawn_seed()
        # The command that the results tell is the one that does the same again.
        options.given += ["--seed", str(options.seed)]
    console.print(f"seed {options.seed}", highlight=False)
    measure = partial(
        measure_server, writer=writer_of(options), show=partial(shown, console=console)
    )
    return Experiment(scenario, options.seed, measure)


def _origin(options: argparse.Namespace, scenario: Scenario, target: str) -> Origin:
    return origin_of(scenario, target, options.model, options.given)


def _carry_out(
    options: argparse.Namespace,
    console: Console,
    work: Callable[[], Coroutine[None, None, None]],
    experiment: Experiment,
    origin: Origin,
) -> None:
    folder = _results_folder(options, experiment.scenario)
    ended = False
    try:
        uvloop.run(work())
        ended = True
    finally:
        if experiment.runs:
            _keep(folder, console, experiment, origin, broken_off=not ended)


def _keep(
    folder: Path, console: Console, experiment: Experiment, origin: Origin, *, broken_off: bool
) -> None:
    summary = summarize(
        origin,
        experiment.runs,
        comparison=experiment.comparison(),
        search=experiment.search,
        broken_off=broken_off,
    )
    write_results(folder, summary, experiment.runs)
    write_report(folder / REPORT, summary, experiment.runs)
    print_summary(summary, console)
    console.print(f"{folder / REPORT}", soft_wrap=True, markup=False)


def _results_folder(options: argparse.Namespace, scenario: Scenario) -> Path:
    """Before anything is measured it is sure that it can be kept. Raises LoadTestError."""
    if options.out is None:
        named = f"{scenario.name}-{time.strftime('%Y%m%d-%H%M%S')}"
        return ROOT / "build" / "loadtest" / named
    folder: Path = options.out
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LoadTestError(f"--out {folder}: {error.strerror}") from None
    return folder


def _report(options: argparse.Namespace, console: Console) -> int:
    summary, runs = read_results(options.folder)
    write_report(options.folder / REPORT, summary, runs)
    print_summary(summary, console)
    console.print(f"{options.folder / REPORT}", soft_wrap=True, markup=False)
    return 0


def _list(options: argparse.Namespace, console: Console) -> int:
    table = Table("scenario", "what it is", box=None)
    for name in scenario_names():
        table.add_row(name, load_scenario(name).description)
    console.print(table)
    console.print(f"\nworkloads: {', '.join(WORKLOADS)}", highlight=False)
    return 0


def _selfcheck(options: argparse.Namespace, console: Console) -> int:
    found = uvloop.run(self_check(options.streams, options.tokens_s, options.tokens))
    for sentence in found.sentences():
        console.print(sentence, highlight=False)
    return 0
