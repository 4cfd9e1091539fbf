"""Each in turn, whatever it carries: the baseline that every other policy has to beat."""

from collections.abc import Sequence

from services.router.placement import Candidate, Draw, Need, Stage


class RoundRobin:
    """Counts per stage, so that prefill and decode turns do not disturb each other."""

    def __init__(self, draw: Draw) -> None:
        self._turns = dict.fromkeys(Stage, 0)

    def choose(self, stage: Stage, need: Need, candidates: Sequence[Candidate]) -> Candidate:
        turn = self._turns[stage]
        self._turns[stage] += 1
        return candidates[turn % len(candidates)]
