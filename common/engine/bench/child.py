"""`python -m common.engine.bench.child SPEC`: one engine with one thread count in one process.

Prints one line of JSON. What is measured while it runs goes to the other stream, line by line.
"""

import json
import os
import sys

from rich.console import Console

from common.checkpoint.checkpoint import Checkpoint, open_checkpoint
from common.engine.bench.backend import (
    Leveled,
    RunnerChoice,
    load_runner,
    peak_flops,
    weight_bytes,
)
from common.engine.bench.bandwidth import read_bandwidth
from common.engine.bench.floors import Floors, StepNeeds, head_weights, layer_weights
from common.engine.bench.machine import load_average
from common.engine.bench.parts import PARTS
from common.engine.bench.rig import Rig
from common.engine.bench.row import Row
from common.engine.bench.sizes import FULL, QUICK
from common.engine.bench.spec import Spec


def rig_for(choice: RunnerChoice, checkpoint: Checkpoint, slots: int) -> Rig:
    """Loads the model and fills a pool of `slots` blocks."""
    # As a worker does it; read when OpenMP is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    runner = load_runner(choice)
    config = checkpoint.config
    stored = weight_bytes(runner, choice, layer_weights(config) + head_weights(config))
    layout = runner.layout
    return Rig(runner, StepNeeds(config, stored, layout.token_bytes, layout.block_tokens), slots)


def run(spec: Spec, say: Console) -> dict[str, object]:
    choice = spec.choice
    sizes = QUICK if spec.quick else FULL
    busy = load_average()
    checkpoint = open_checkpoint(choice.model, choice.cache)
    rig = rig_for(choice, checkpoint, sizes.slots(choice.block_tokens))
    floors = Floors(read_bandwidth(choice.threads), peak_flops(choice))
    rows: list[Row] = []
    for part in spec.parts:
        for row in PARTS[part](rig, sizes):
            say.print(f"{choice.threads} threads, {part}, {row.case}: {row.value:.1f} {row.unit}")
            rows.append(row)
    runner = rig.runner.inner
    return {
        "engine": choice.engine,
        "arithmetic": choice.arithmetic,
        "level": runner.level if isinstance(runner, Leveled) else None,
        "threads": choice.threads,
        "weight_bytes": rig.needs.weight_bytes,
        "token_bytes": rig.needs.token_bytes,
        "read_bytes_s": floors.read_bytes_s,
        "peak_flops_s": floors.flops_s,
        "load_average": [busy, load_average()],
        "rows": [row.as_json(floors) for row in rows],
    }


if __name__ == "__main__":
    result = run(Spec.from_json(sys.argv[1]), Console(stderr=True, highlight=False))
    sys.stdout.write(json.dumps(result) + "\n")
