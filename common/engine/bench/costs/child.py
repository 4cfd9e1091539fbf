"""`python -m common.engine.bench.costs.child SPEC`: steps, measured on one core beside another one.

All steps are measured once alone, once beside prompts and once beside decodes, then all again, as
often as time allows: whatever else the machine does strikes all of them alike, and medians forget
it. Time is the process's own CPU time, which on one thread is the wall time of an undisturbed step:
who takes the core away is not counted, who takes memory bandwidth is. Prints one line of JSON.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from random import Random

from common.checkpoint.checkpoint import open_checkpoint
from common.engine.bench.backend import Leveled
from common.engine.bench.child import rig_for
from common.engine.bench.costs.neighbour import DECODES, IDLE, PROMPTS, Neighbour
from common.engine.bench.costs.steps import FITTED, JUDGED, QUICK_FITTED, QUICK_JUDGED, Step
from common.engine.bench.machine import load_average
from common.engine.bench.rig import Rig
from common.engine.bench.spec import Spec
from common.engine.bench.step_split import PROMPT_TOKENS, StepSplit

CONDITIONS = {"alone": IDLE, "beside_prompts": PROMPTS, "beside_decodes": DECODES}
SECONDS = 110.0
"""No round begins that would end later; without loading, which takes about ten."""
LEAST_ROUNDS, MOST_ROUNDS = 3, 12
SPLIT_STREAMS, SPLIT_TOKENS = (1, 16), 24
"""For what an engine does between two steps."""


def run(spec: Spec) -> dict[str, object]:
    cores = sorted(os.sched_getaffinity(0))
    fitted, judged = (QUICK_FITTED, QUICK_JUDGED) if spec.quick else (FITTED, JUDGED)
    steps = (*fitted, *judged)
    busy = load_average()
    checkpoint = open_checkpoint(spec.choice.model, spec.choice.cache)
    with Neighbour(spec, cores[1]) as neighbour:
        os.sched_setaffinity(0, {cores[0]})
        block_tokens = spec.choice.block_tokens
        streams = max(SPLIT_STREAMS) * -(-(PROMPT_TOKENS + SPLIT_TOKENS) // block_tokens)
        slots = max(streams, *(step.blocks(block_tokens) for step in steps))
        rig = rig_for(spec.choice, checkpoint, slots)
        seconds, rounds = 0.0 if spec.quick else SECONDS, 0 if spec.quick else LEAST_ROUNDS
        took = measure_rounds(rig, neighbour.be, steps, max(1, rounds), seconds)
        neighbour.be(IDLE)
        outside = [_outside_ms(rig, count) for count in SPLIT_STREAMS]
    runner = rig.runner.inner
    return {
        "arithmetic": spec.choice.arithmetic,
        "level": runner.level if isinstance(runner, Leveled) else None,
        "threads": spec.choice.threads,
        "token_bytes": runner.layout.token_bytes,
        "load_average": [busy, load_average()],
        "rounds": len(took[0]["alone"]),
        "outside_ms": dict(zip(SPLIT_STREAMS, outside, strict=True)),
        "fitted": _medians(took[: len(fitted)]),
        "judged": _medians(took[len(fitted) :]),
    }


def measure_rounds(
    rig: Rig, be: Callable[[str], None], steps: Sequence[Step], least: int, seconds: float
) -> list[dict[str, list[float]]]:
    """Of each step by condition, the milliseconds of each round."""
    calls = [rig.step(step.pieces(rig)) for step in steps]
    took: list[dict[str, list[float]]] = [{name: [] for name in CONDITIONS} for _ in steps]
    began, rounds = time.perf_counter(), 0
    while rounds < least or (rounds < MOST_ROUNDS and _fits(began, rounds, seconds)):
        order = list(range(len(steps)))
        Random(rounds).shuffle(order)
        for name, word in CONDITIONS.items():
            be(word)
            calls[order[0]]()
            for number in order:
                start = time.process_time()
                calls[number]()
                took[number][name].append((time.process_time() - start) * 1e3)
        rig.runner.take()
        rounds += 1
    return took


def _fits(began: float, rounds: int, seconds: float) -> bool:
    elapsed = time.perf_counter() - began
    return elapsed + elapsed / rounds < seconds


def _medians(took: Sequence[dict[str, list[float]]]) -> dict[str, list[float]]:
    return {name: [statistics.median(one[name]) for one in took] for name in CONDITIONS}


def _outside_ms(rig: Rig, streams: int) -> float:
    split = StepSplit.measured(rig, streams, SPLIT_TOKENS)
    return split.step_ms - split.forward_ms


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(Spec.from_json(sys.argv[1]))) + "\n")
