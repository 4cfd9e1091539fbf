"""`make bench-costs`: what steps take on this machine, as a law that loadtest can predict with.

Two processes on two cores: one measures, the other is idle, computes prompts or decodes. About two
minutes and a half, of which most is measuring; whatever else runs makes it worse.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from common.checkpoint.checkpoint import open_checkpoint
from common.checkpoint.default_model import model_name
from common.engine.bench.costs.law_fit import Missed, Sample, fit_law, missed
from common.engine.bench.costs.step_costs import ALONE, SCHEMA, Outside
from common.engine.bench.costs.step_law import StepLaw, decode_shape, prompt_shape
from common.engine.bench.costs.steps import FITTED, JUDGED, QUICK_FITTED, QUICK_JUDGED, Step
from common.engine.bench.machine import machine
from common.engine.bench.options import add_engine_options, runner_choice
from common.engine.bench.report import WIDTH
from common.engine.bench.revision import revision
from common.engine.bench.spec import Spec

PROMPT_TOKENS, CONTEXT_TOKENS = 192, 256
"""Of the two figures that targets are derived from: a prompt, and what a lone stream attends to."""
TTFT_TIMES, TPOT_TIMES = 5.0, {"relaxed": 2.5, "strict": 1.5}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="common.engine.bench.costs", description=__doc__)
    add_engine_options(parser)
    parser.add_argument("--quick", action="store_true", help="one round of few steps: a trial")
    parser.add_argument("--json", type=Path, help="where to write the result")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    say = Console(stderr=True)
    if not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2:
        say.print("two cores are needed, on a system where processes can be pinned to them")
        return 1
    choice = runner_choice(options, 1)
    try:
        measured = _measured(Spec(choice, (), options.quick))
    except subprocess.CalledProcessError as error:
        say.print(f"what it said stands above: {error}")
        return 1
    steps = (QUICK_FITTED, QUICK_JUDGED) if options.quick else (FITTED, JUDGED)
    checkpoint = open_checkpoint(choice.model, choice.cache)
    result = {
        "schema": SCHEMA,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "revision": revision(),
        "model": {"name": model_name(choice.model), "digest": checkpoint.digest()},
        **fitted(measured, *steps),
    }
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    show(result, Console(width=WIDTH))
    return 0


def _measured(spec: Spec) -> dict[str, Any]:
    """Its thread pools read their size from the environment, and so do those of its neighbour."""
    done = subprocess.run(
        [sys.executable, "-m", "common.engine.bench.costs.child", spec.to_json()],
        env={**os.environ, "OMP_NUM_THREADS": str(spec.choice.threads)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def fitted(
    measured: Mapping[str, Any], fit: Sequence[Step], judge: Sequence[Step]
) -> dict[str, object]:
    """The file's figures from what the child measured."""
    taken = {name: _samples(fit, ms) for name, ms in measured["fitted"].items()}
    judged = {name: _samples(judge, ms) for name, ms in measured["judged"].items()}
    laws = {name: fit_law(samples) for name, samples in taken.items()}
    alone = laws[ALONE]
    kept = ("arithmetic", "level", "threads", "token_bytes", "load_average", "rounds")
    return {
        **{name: measured[name] for name in kept},
        "outside_ms": asdict(outside({int(n): ms for n, ms in measured["outside_ms"].items()})),
        "laws": {name: asdict(law) for name, law in laws.items()},
        "missed": {
            name: {kind: asdict(of) for kind, of in missed(law, judged[name]).items()}
            for name, law in laws.items()
        },
        "slowdown": {name: slowdown(taken[ALONE], s) for name, s in taken.items() if name != ALONE},
        "lone_decode_ms": alone.ms(decode_shape(1, CONTEXT_TOKENS)),
        "prompt_tokens_s": PROMPT_TOKENS / alone.ms(prompt_shape(PROMPT_TOKENS)) * 1e3,
        "targets_ms": targets(alone),
    }


def _samples(steps: Sequence[Step], ms: Sequence[float]) -> list[Sample]:
    return [Sample(step.shape, took) for step, took in zip(steps, ms, strict=True)]


def outside(by_rows: Mapping[int, float]) -> Outside:
    """The line through two points, no part of it below zero."""
    (few, few_ms), (many, many_ms) = sorted(by_rows.items())
    row_ms = max(0.0, (many_ms - few_ms) / (many - few))
    return Outside(max(0.0, few_ms - few * row_ms), row_ms)


def slowdown(alone: Sequence[Sample], beside: Sequence[Sample]) -> dict[str, float]:
    """The median ratio of the same steps, by kind of step."""
    ratios: dict[str, list[float]] = {}
    for one, other in zip(alone, beside, strict=True):
        ratios.setdefault(one.kind, []).append(other.ms / one.ms)
    return {kind: statistics.median(found) for kind, found in ratios.items()}


def targets(law: StepLaw) -> dict[str, float]:
    """What scenarios may ask for: multiples of what an unloaded engine needs."""
    lone = law.ms(decode_shape(1, CONTEXT_TOKENS))
    tpot = {f"tpot_{name}": lone * times for name, times in TPOT_TIMES.items()}
    return {"ttft": TTFT_TIMES * law.ms(prompt_shape(PROMPT_TOKENS)), **tpot}


def show(result: Mapping[str, Any], console: Console) -> None:
    rounds, busy = result["rounds"], result["load_average"]
    table = Table(
        title=f"{result['model']['name']}, {result['arithmetic']}: {rounds} rounds, load average "
        f"{busy[0]:.1f} before",
        box=box.SIMPLE,
    )
    for heading in ("", "steps", "slower by", "law misses, median", "P90"):
        table.add_column(heading, justify="left" if heading in ("", "steps") else "right")
    for name, kinds in result["missed"].items():
        for kind, found in kinds.items():
            of = Missed(**found)
            slower = result["slowdown"].get(name, {}).get(kind)
            told = "" if slower is None else f"{slower - 1:.1%}"
            table.add_row(name.replace("_", " "), kind, told, f"{of.median:.1%}", f"{of.p90:.1%}")
    console.print(table)
    for name, law in result["laws"].items():
        console.print(f"{name.replace('_', ' ')}: {_prices(law)}", highlight=False)
    out, goals = result["outside_ms"], result["targets_ms"]
    console.print(
        f"between steps {out['step_ms']:.2f} ms and {out['row_ms'] * 1e3:.0f} us a row; a lone "
        f"stream's step {result['lone_decode_ms']:.2f} ms at {CONTEXT_TOKENS} tokens; "
        f"{result['prompt_tokens_s']:.0f} prompt tokens/s at {PROMPT_TOKENS}",
        highlight=False,
    )
    told = ", ".join(f"{name} {value:.1f}" for name, value in goals.items())
    console.print(f"targets to ask for, ms: {told}", highlight=False)


def _prices(law: Mapping[str, Any]) -> str:
    prompts, few, many = law["prompts"], law["few"], law["many"]
    decodes = "; ".join(
        f"{side} {law['few_rows']} rows {p['base_ms']:.2f} + {p['row_ms']:.3f} row + "
        f"{p['context_ms'] * 1e3:.2f}e-3 context"
        for side, p in (("to", few), ("over", many))
    )
    return (
        f"prompts {prompts['base_ms']:.2f} + {prompts['token_ms']:.4f} token + "
        f"{prompts['pair_ms'] * 1e6:.1f}e-6 pair; decodes {decodes}; joined -{law['joined_ms']:.2f}"
    )
