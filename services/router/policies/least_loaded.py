"""The one that carries least, blind to caches: sequences first, then work, then blocks."""

from collections.abc import Sequence

from services.router.placement import Candidate, Draw, Need, Stage, WorkerLoad


def burden(load: WorkerLoad) -> tuple[int, float, int]:
    """Orders loads from light to heavy."""
    return (load.sequences, load.work_tokens, load.blocks_used)


class LeastLoaded:
    def __init__(self, draw: Draw) -> None:
        """Draws nothing: ties go to the first."""

    def choose(self, stage: Stage, need: Need, candidates: Sequence[Candidate]) -> Candidate:
        return min(candidates, key=lambda c: burden(c.load))
