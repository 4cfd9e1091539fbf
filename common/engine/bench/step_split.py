"""Where the time of a decode step goes: the runner, its own phases, and everything around it."""

from dataclasses import dataclass
from typing import Self

from rich import box
from rich.table import Table

from common.engine.bench.backend import Counted
from common.engine.bench.rig import Rig
from common.engine.bench.workload import answer

PROMPT_TOKENS = 64


@dataclass(frozen=True, slots=True)
class StepSplit:
    """Milliseconds a step, prompts included."""

    steps: int
    step_ms: float
    forward_ms: float
    phases_ms: dict[str, float]
    """As the runner counts them; empty when it does not."""

    @classmethod
    def measured(cls, rig: Rig, streams: int, tokens: int) -> Self:
        prompts = [rig.tokens(PROMPT_TOKENS, seed) for seed in range(streams)]
        answer(rig.engine(), prompts, tokens)
        rig.runner.take()
        before = _counters(rig)
        answered = answer(rig.engine(), prompts, tokens)
        noted = rig.runner.take()
        steps = len(noted.batches)
        after = _counters(rig)
        return cls(
            steps,
            answered.seconds / steps * 1e3,
            noted.seconds / steps * 1e3,
            {name: (after[name] - before.get(name, 0.0)) / steps * 1e3 for name in after},
        )

    def table(self) -> Table:
        table = Table(title=f"{self.steps} steps", box=box.SIMPLE)
        table.add_column("")
        table.add_column("ms a step", justify="right")
        table.add_column("", justify="right")
        for name, value in (
            ("step", self.step_ms),
            ("outside the runner", self.step_ms - self.forward_ms),
            ("runner", self.forward_ms),
            *((f"  {name}", value) for name, value in self.phases_ms.items()),
        ):
            table.add_row(name, f"{value:.3f}", f"{value / self.step_ms:.1%}")
        return table


def _counters(rig: Rig) -> dict[str, float]:
    runner = rig.runner.inner
    return dict(runner.counters()) if isinstance(runner, Counted) else {}
