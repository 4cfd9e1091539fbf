"""`make profile`: where a step goes while many streams decode.

First the split of a step between the runner and the rest, undisturbed; then the hottest functions.
py-spy, when it is installed, samples a process of its own from outside and sees native code;
cProfile is the fallback, and inflates small functions.
"""

import argparse
import cProfile
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from common.checkpoint.checkpoint import open_checkpoint
from common.engine.bench.child import rig_for
from common.engine.bench.hot_spots import from_cprofile, from_stacks, table
from common.engine.bench.options import add_engine_options, runner_choice
from common.engine.bench.report import WIDTH
from common.engine.bench.rig import Rig
from common.engine.bench.sizes import Sizes
from common.engine.bench.step_split import PROMPT_TOKENS, StepSplit
from common.engine.bench.workload import answer

_RATE_HZ = 400


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="common.engine.bench.profile", description=__doc__)
    add_engine_options(parser)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64, help="of each stream")
    parser.add_argument("--run-only", action="store_true", help="for a profiler outside")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    rig = _rig(options)
    if options.run_only:
        _run(rig, options)
        return 0
    console = Console(width=WIDTH)
    console.print(StepSplit.measured(rig, options.streams, options.tokens).table())
    sampler = find_py_spy()
    if sampler is not None:
        return _sample(sampler, arguments, console)
    profile = cProfile.Profile()
    profile.runcall(_run, rig, options)
    console.print(table(from_cprofile(profile), "cProfile"))
    return 0


def find_py_spy() -> str | None:
    """In the path, or beside our interpreter."""
    return shutil.which("py-spy") or shutil.which("py-spy", path=Path(sys.executable).parent)


def _rig(options: argparse.Namespace) -> Rig:
    choice = runner_choice(options, options.threads)
    sizes = Sizes(
        prefill=(PROMPT_TOKENS,),
        continued=(0, 0),
        batches=(1,),
        contexts=(1,),
        streams=(options.streams,),
        stream_prompt=PROMPT_TOKENS,
        stream_output=options.tokens,
    )
    slots = sizes.slots(choice.block_tokens)
    return rig_for(choice, open_checkpoint(choice.model, choice.cache), slots)


def _run(rig: Rig, options: argparse.Namespace) -> None:
    prompts = [rig.tokens(PROMPT_TOKENS, seed) for seed in range(options.streams)]
    answer(rig.engine(), prompts, options.tokens)


def _sample(py_spy: str, arguments: Sequence[str], console: Console) -> int:
    """The sampled process is its child: a system may forbid looking into any other."""
    with tempfile.TemporaryDirectory() as folder:
        stacks = Path(folder) / "stacks"
        record = [py_spy, "record", "--format", "raw", "--rate", str(_RATE_HZ), "--native"]
        program = [sys.executable, "-m", "common.engine.bench.profile", *arguments]
        command = [*record, "--output", str(stacks), "--", *program, "--run-only"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or not stacks.exists():
            console.print(f"py-spy failed: {done.stderr}")
            return 1
        console.print(table(from_stacks(stacks.read_text(), answer.__name__), "py-spy"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
