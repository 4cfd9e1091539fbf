"""The commands: python -m deploy.local up | down | status | logs | demo | trace | overhead.

The Makefile calls these. Whatever a person can put right is a message and exit status 1.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from common.checkpoint.checkpoint import open_checkpoint
from common.engine.bench.options import add_engine_options, runner_choice
from common.engine.bench.peers.cli import our_order
from common.engine.bench.peers.peer_process import PeerProcess
from deploy.local.admin_client import ask_all
from deploy.local.child import ROOT
from deploy.local.demo import stream_answer
from deploy.local.errors import DeployError
from deploy.local.folders import Folders
from deploy.local.launch import shut_down
from deploy.local.lock import lock_holder
from deploy.local.logs import follow_logs, show_logs
from deploy.local.machine import cores
from deploy.local.overhead import engine_alone, measure_overhead, sentence, shares_table
from deploy.local.state import ClusterState, read_state
from deploy.local.status import table
from deploy.local.trace import request_trace
from deploy.local.up import UpOrder, bring_up

PROMPT = "Explain in three sentences why the sky is blue."


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m deploy.local", description=__doc__)
    result.add_argument("--run", type=Path, default=ROOT / ".run", help="the run folder")
    commands = result.add_subparsers(required=True)
    up = commands.add_parser("up", help="start a cluster and wait until it serves")
    up.add_argument("--topology", default="1p1d", help="a name in topologies/, or a TOML file")
    up.add_argument("--model", default="", help="GGUF file or Hugging Face folder")
    up.add_argument("--port", type=int, default=8000, help="of the first gateway")
    up.add_argument("--limit", type=float, default=120.0, help="seconds for a stage to be ready")
    up.set_defaults(act=_up)
    commands.add_parser("down", help="stop it; idempotent").set_defaults(act=_down)
    commands.add_parser("status", help="a table of its processes").set_defaults(act=_status)
    logs = commands.add_parser("logs", help="the end of all logs, merged")
    logs.add_argument("names", nargs="*", help="processes; none means all")
    logs.add_argument("-n", "--lines", type=int, default=40)
    logs.add_argument("-f", "--follow", action="store_true")
    logs.set_defaults(act=_logs)
    demo = commands.add_parser("demo", help="stream one answer")
    demo.add_argument("--prompt", default=PROMPT)
    demo.set_defaults(act=_demo)
    trace = commands.add_parser("trace", help="what the gateway remembers of a request")
    trace.add_argument("id", help="id of the answer, or its X-Request-Id")
    trace.set_defaults(act=_trace)
    overhead = commands.add_parser("overhead", help="throughput beside the engine's own")
    add_engine_options(overhead)
    overhead.add_argument("--streams", type=int, default=16)
    overhead.add_argument("--rounds", type=int, default=5)
    overhead.add_argument("--threads", type=int, default=cores(), help="of the engine alone")
    overhead.set_defaults(act=_overhead)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        options.act(options, Folders(options.run.resolve()))
    except DeployError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _up(options: argparse.Namespace, folders: Folders) -> None:
    cache = os.environ.get("TWINFLEET_CACHE", "~/.cache/twinfleet")
    order = UpOrder(
        topology=options.topology,
        model=options.model or os.environ.get("TWINFLEET_MODEL", ""),
        http_port=options.port,
        cache=Path(cache).expanduser().resolve(),
        start_limit_s=options.limit,
    )
    bring_up(folders, order, Console())


def _down(options: argparse.Namespace, folders: Folders) -> None:
    print("Stopped" if shut_down(folders) else "Nothing was running")


def _status(options: argparse.Namespace, folders: Folders) -> None:
    state = running(folders)
    Console().print(table(state, asyncio.run(ask_all(state.processes))))


def _logs(options: argparse.Namespace, folders: Folders) -> None:
    ends = show_logs(folders, options.names, options.lines, print)
    if options.follow:
        follow_logs(folders, options.names, ends, print)


def _demo(options: argparse.Namespace, folders: Folders) -> None:
    url = running(folders).url
    print(f"> {options.prompt}\n")
    timing = asyncio.run(
        stream_answer(url, options.prompt, lambda text: print(text, end="", flush=True))
    )
    print(f"\n\n{timing.sentence()}")


def _trace(options: argparse.Namespace, folders: Folders) -> None:
    print(asyncio.run(request_trace(running(folders).url, options.id)))


def _overhead(options: argparse.Namespace, folders: Folders) -> None:
    state, choice = running(folders), runner_choice(options, options.threads)
    vocab = open_checkpoint(choice.model, choice.cache).config.vocab
    with PeerProcess(our_order(choice)) as process:
        alone = engine_alone(process, vocab)
        done = asyncio.run(measure_overhead(state, alone, vocab, options.streams, options.rounds))
    print(sentence(done, options.streams))
    Console().print(shares_table(done))


def running(folders: Folders) -> ClusterState:
    """The state file, if what it speaks of lives."""
    state = read_state(folders.state)
    if state is None or lock_holder(folders.lock) != state.supervisor:
        raise DeployError("no cluster runs here. Start one:  make up")
    return state
