"""Any of them: what a load balancer that knows nothing does."""

from collections.abc import Sequence

from services.router.placement import Candidate, Draw, Need, Stage


class Random:
    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def choose(self, stage: Stage, need: Need, candidates: Sequence[Candidate]) -> Candidate:
        return candidates[self._draw(len(candidates))]
