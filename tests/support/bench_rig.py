"""A benchmark of milliseconds: a tiny model, tiny sizes, every part as it is."""

from pathlib import Path

from common.checkpoint.checkpoint import open_checkpoint
from common.engine.bench.backend import RunnerChoice
from common.engine.bench.child import rig_for
from common.engine.bench.rig import Rig
from common.engine.bench.sizes import Sizes
from common.engine.bench.timing import Repeats

TINY = Sizes(
    prefill=(40,),
    continued=(8, 40),
    batches=(1, 3),
    contexts=(40,),
    sharing=((2, 40, 32),),
    verify_rows=(2, 4),
    verify_batches=(1, 2),
    verify_context=40,
    streams=(3,),
    stream_prompt=8,
    stream_output=5,
    warm_prompt=70,
    disturbed_streams=2,
    disturbed_output=3,
    long_prompt=40,
    steps=Repeats(2, 0.0),
    scenes=Repeats(2, 0.0),
)


def tiny_choice(folder: Path, cache: Path) -> RunnerChoice:
    return RunnerChoice("torch", "fp32", 1, folder, cache)


def tiny_rig(folder: Path, cache: Path, slots: int = 64) -> Rig:
    choice = tiny_choice(folder, cache)
    return rig_for(choice, open_checkpoint(folder, cache), slots)
