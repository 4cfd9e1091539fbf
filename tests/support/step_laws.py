"""Machines whose steps take known times, and an engine on one of them.

The laws are not of the form that the engine's cost model assumes, except the first.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from common.engine.engine import EngineLimits
from common.engine.job import Emitted, EngineEvent
from common.engine.mock import MockRunner
from common.engine.runner import Batch, Drawn
from common.engine.step_cost import StepShape
from tests.support.engines import Bench, greedy, key, prompt_of

Law = Callable[[StepShape], float]
"""Seconds of a step."""

BLOCK_TOKENS = 32
STREAMS = 4


def linear(shape: StepShape) -> float:
    decodes = 6e-3 + 4e-4 * shape.decode_rows + 1e-6 * shape.decode_context_tokens
    return decodes + 3.5e-4 * shape.prefill_tokens + 4e-7 * shape.prefill_pairs


def roofline(shape: StepShape) -> float:
    """Weights are read once or multiplied with every row, whichever takes longer."""
    rows = shape.decode_rows + shape.prefill_tokens
    attention = 5e-7 * (shape.prefill_pairs + shape.decode_context_tokens)
    return max(9e-3, 3e-4 * rows) + attention


def tiles(shape: StepShape) -> float:
    """Rows are multiplied 32 at a time."""
    rows = shape.decode_rows + shape.prefill_tokens
    return 4e-3 + 9e-3 * -(-rows // 32) + 3e-7 * shape.prefill_pairs


def steep(shape: StepShape) -> float:
    """A token at context 256 costs twice what it does at the beginning."""
    return 5e-3 + 1e-4 * (shape.prefill_tokens + shape.prefill_pairs / 256)


def launches(shape: StepShape) -> float:
    """A large device: a step costs its launch, nearly whatever is in it."""
    return 8e-3 + 2e-6 * (shape.decode_rows + shape.prefill_tokens) + 1e-9 * shape.prefill_pairs


LAWS: dict[str, Law] = {law.__name__: law for law in (linear, roofline, tiles, steep, launches)}


def noisy(law: Law, spread: float, seed: int = 0) -> Law:
    rng = np.random.default_rng(seed)
    return lambda shape: law(shape) * float(rng.uniform(1 - spread, 1 + spread))


def slow_at(law: Law, steps: Iterator[int], factor: float) -> Law:
    """The steps of these numbers take `factor` times as long."""
    slow, count = set(steps), [0]

    def seconds(shape: StepShape) -> float:
        count[0] += 1
        return law(shape) * (factor if count[0] - 1 in slow else 1.0)

    return seconds


def shape_of(batch: Batch) -> StepShape:
    shape = StepShape()
    for first, stop in zip(batch.starts[:-1].tolist(), batch.starts[1:].tolist(), strict=True):
        context = int(batch.positions[first])
        if stop - first > 1:
            shape = shape.with_chunk(context, stop - first)
        else:
            rows, keys = shape.decode_rows + 1, shape.decode_context_tokens + context + 1
            shape = StepShape(rows, keys, shape.prefill_tokens, shape.prefill_pairs)
    return shape


@dataclass
class Run:
    """Steps, and when each stream's tokens came."""

    shapes: list[StepShape] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    times: dict[str, list[float]] = field(default_factory=dict)

    def gaps(self, name: str, since: float = 0.0) -> list[float]:
        times = [time for time in self.times[name] if time >= since]
        return np.diff(times).tolist()


class TimedRunner(MockRunner):
    """Says how long its steps took; `spend` lets the clock know."""

    def __init__(self, law: Law, spend: Callable[[float], None], run: Run) -> None:
        super().__init__(BLOCK_TOKENS)
        self._law, self._spend, self._run = law, spend, run

    def step(self, batch: Batch) -> list[Drawn]:
        shape = shape_of(batch)
        seconds = self._law(shape)
        self._run.shapes.append(shape)
        self._run.seconds.append(seconds)
        self._spend(seconds)
        return super().step(batch)


class TimedBench(Bench):
    """Its clock advances by what steps take and by nothing else."""

    def __init__(self, law: Law, tpot_target_ms: float = 0.0, step_tokens: int = 512) -> None:
        self.past = Run()
        limits = EngineLimits(step_tokens, tpot_target_ms=tpot_target_ms)
        super().__init__(256, limits=limits, runner=TimedRunner(law, self._spend, self.past))

    def _spend(self, seconds: float) -> None:
        self.now += seconds

    def clock(self) -> float:
        return self.now

    def step(self) -> list[EngineEvent]:
        fresh = super().step()
        for event in fresh:
            if isinstance(event, Emitted):
                self.past.times.setdefault(event.key.request, []).append(self.now)
        return fresh

    def start_streams(self, tokens: int = 1000, warm_up: int = 12) -> None:
        """Streams one after another, then steps with nothing else."""
        for index in range(STREAMS):
            self.add(f"stream-{index}", prompt_of(64 + 40 * index, seed=index), greedy(tokens))
            self.step()
            self.step()
        for _ in range(warm_up):
            self.step()

    def until_first_token(self, name: str, length: int) -> float:
        """Prompt in, streams running: when its first token came."""
        self.add(name, prompt_of(length, seed=99), greedy(2))
        for _ in range(5000):
            self.step()
            if name in self.past.times:
                return self.past.times[name][0]
        raise AssertionError(f"{key(name)} never had a token")
