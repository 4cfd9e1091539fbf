"""`python -m common.engine.bench.costs.neighbour SPEC CORE`: keeps another core busy, as told.

Reads one word a line: idle, prompts or decodes; answers each with the same word when it has begun,
and goes on until the next. Ends with its input. It has its own copy of the model, as a worker has.
"""

import os
import select
import subprocess
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self

from common.checkpoint.checkpoint import open_checkpoint
from common.domain.errors import ServingError
from common.engine.bench.child import rig_for
from common.engine.bench.costs.steps import Step
from common.engine.bench.rig import Rig
from common.engine.bench.spec import Spec

IDLE, PROMPTS, DECODES = "idle", "prompts", "decodes"
BUSY = {
    PROMPTS: Step(tokens=192),
    DECODES: Step(rows=8, context=256),
}
"""What it computes over and over."""


def serve(calls: dict[str, Callable[[], object]]) -> None:
    """Until standard input ends."""
    call: Callable[[], object] | None = None
    while True:
        waits = None if call is None else 0.0
        if select.select([sys.stdin], [], [], waits)[0]:
            word = sys.stdin.readline().strip()
            if not word:
                return
            call = calls.get(word)
            if call is not None:
                call()
            sys.stdout.write(word + "\n")
            sys.stdout.flush()
        elif call is not None:
            call()


def calls_of(rig: Rig) -> dict[str, Callable[[], object]]:
    def over(step: Step) -> Callable[[], object]:
        once = rig.step(step.pieces(rig))

        def call() -> None:
            once()
            rig.runner.take()

        return call

    return {word: over(step) for word, step in BUSY.items()}


class Neighbour:
    """Our side of the conversation. Use it in a `with`: the process ends with the block."""

    def __init__(self, spec: Spec, core: int) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "common.engine.bench.costs.neighbour",
                spec.to_json(),
                str(core),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def be(self, word: str) -> None:
        """Returns when it has begun."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()
        if self._process.stdout.readline().strip() != word:
            raise ServingError("the process on the other core ended")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()


def main(arguments: list[str]) -> None:
    spec, core = Spec.from_json(arguments[0]), int(arguments[1])
    os.sched_setaffinity(0, {core})
    blocks = max(step.blocks(spec.choice.block_tokens) for step in BUSY.values())
    checkpoint = open_checkpoint(spec.choice.model, spec.choice.cache)
    serve(calls_of(rig_for(spec.choice, checkpoint, blocks)))


if __name__ == "__main__":
    main(sys.argv[1:])
