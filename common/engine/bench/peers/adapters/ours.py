"""Our own engine, in the same harness as the others. A new engine for each prompt of a prefill
would forget its prefixes, so one lives as long as the process, as theirs do."""

from collections.abc import Mapping
from pathlib import Path

from common.checkpoint.checkpoint import open_checkpoint
from common.engine.bench.backend import RunnerChoice
from common.engine.bench.child import rig_for
from common.engine.bench.engine_streams import EngineStreams
from common.engine.bench.sizes import FULL


class Ours(EngineStreams):
    """Implements Peer."""

    about = "twinfleet"
    caches_prefixes = True


def open_engine(model: str, threads: int, options: Mapping[str, str]) -> Ours:
    """Options: engine, arithmetic, cache."""
    choice = RunnerChoice(
        engine=options["engine"],
        arithmetic=options["arithmetic"],
        threads=threads,
        model=Path(model),
        cache=Path(options["cache"]),
    )
    checkpoint = open_checkpoint(choice.model, choice.cache)
    rig = rig_for(choice, checkpoint, FULL.slots(choice.block_tokens))
    return Ours(rig.runner.inner, rig.slots)
