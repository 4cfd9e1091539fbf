"""The side of the comparison that holds an engine: JSON lines in, JSON lines out.

    {"adapter", "model", "threads", "options"} -> {"about", "load_s"}
    {"case", "seed", "vocab"}                  -> {"value", "seconds", "cpu_seconds"}

Runs with the peer's own interpreter, so the standard library must do. Engines print what they like:
their standard output is sent where errors go, and the answers have a channel of their own.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

from common.engine.bench.peers.cases import Case, run_case
from common.engine.bench.peers.peer import Open


def serve(requests: Iterator[str], replies: TextIO) -> None:
    """Until there are no more requests. An engine that fails ends the process."""
    start = time.perf_counter()
    order = json.loads(next(requests))
    module, name = order["adapter"].split(":")
    open_engine: Open = getattr(importlib.import_module(module), name)
    peer = open_engine(order["model"], order["threads"], order["options"])
    _reply(replies, {"about": peer.about, "load_s": time.perf_counter() - start})
    for line in requests:
        request = json.loads(line)
        wall, cpu = time.perf_counter(), time.process_time()
        value = run_case(peer, Case(**request["case"]), request["seed"], request["vocab"])
        _reply(
            replies,
            {
                "value": value,
                "seconds": time.perf_counter() - wall,
                "cpu_seconds": time.process_time() - cpu,
            },
        )


def _reply(replies: TextIO, message: dict[str, Any]) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()


def private_output() -> TextIO:
    """Standard output for us alone; from now on everybody else's goes to standard error."""
    ours = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return os.fdopen(ours, "w")


if __name__ == "__main__":
    with private_output() as channel:
        serve(iter(sys.stdin.readline, ""), channel)
