"""What a step costs besides the runner's own time.

`python -m tests.support.step_overhead` prints it for 32 decoding sequences at two contexts, and
what telling a gateway about a step costs. The runner here computes nothing, so a step is plan,
batch, commit and what the engine's host reads afterwards; the time inside the runner's call is
taken off. Forward passes leave the processor's caches to weights: `cold` does so, too.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from common.domain.block import LayoutTag
from common.engine.engine import Engine, EngineLimits
from common.engine.host import load_of
from common.engine.job import Add, Emitted, EngineEvent, Held, Start
from common.engine.mock import mock_layout
from common.engine.prefix_cache import PrefixCache
from common.engine.runner import Batch, Drawn
from common.kv.hashing import extend_chain
from tests.support.engines import ROOT, greedy, key, prompt_of
from tests.support.sim.loop import warped
from tests.support.workers import Stage

SEQUENCES = 32
BLOCK_TOKENS = 32
COLD_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Spent:
    """Milliseconds: by the clock on the wall, and of this thread's own CPU time."""

    wall: float
    cpu: float

    @classmethod
    def since_boot(cls) -> "Spent":
        return cls(time.perf_counter() * 1e3, time.thread_time() * 1e3)

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.wall - other.wall, self.cpu - other.cpu)

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.wall + other.wall, self.cpu + other.cpu)


NOTHING = Spent(0.0, 0.0)


def median(samples: Sequence[Spent]) -> Spent:
    return Spent(
        statistics.median(sample.wall for sample in samples),
        statistics.median(sample.cpu for sample in samples),
    )


class NullRunner:
    """Implements Runner: every token is 7, and no block has bytes. Notes its own time."""

    def __init__(self, *, cold: bool = False) -> None:
        self.layout: LayoutTag = mock_layout(BLOCK_TOKENS)
        self.vocab = 260
        self.context_tokens = 1 << 20
        self.eos_token_ids: tuple[int, ...] = ()
        self.spent = NOTHING
        self._token = Drawn(7)
        self._weights = np.ones(COLD_BYTES if cold else 0, dtype=np.uint8).view(np.uint64)

    def bind(self, memory: memoryview, slots: int, slot_bytes: int) -> None:
        """There are no bytes."""

    def step(self, batch: Batch) -> list[Drawn]:
        before = Spent.since_boot()
        self._weights.sum()
        drawn = [self._token] * len(batch.draws)
        self.spent += Spent.since_boot() - before
        return drawn

    def copy_block(self, source: int, target: int) -> None:
        """There are no bytes."""

    def to_host(self, slots: Sequence[int]) -> None:
        """There are no bytes."""

    def to_device(self, slots: Sequence[int]) -> None:
        """There are no bytes."""


class DecodingEngine:
    """An engine whose sequences have all had their first token."""

    def __init__(
        self, context: int, sequences: int = SEQUENCES, steps: int = 4096, *, cold: bool = False
    ) -> None:
        self.runner = NullRunner(cold=cold)
        slots = sequences * -(-(context + steps + 1) // BLOCK_TOKENS)
        limits = EngineLimits(step_tokens=1 << 20, max_sequences=sequences)
        cache = PrefixCache(slots, lambda slot: None)
        self.engine = Engine(self.runner, cache, limits, time.monotonic)
        for index in range(sequences):
            prompt = prompt_of(context, seed=index)
            units = extend_chain(ROOT, prompt)
            self.engine.handle(Add(key(f"r{index}"), prompt, units, ROOT, greedy(1 << 20)))
        for event in self.engine.step():
            assert isinstance(event, Held)
            self.engine.handle(Start(event.key, event.cached_tokens, None))
        for _ in range(2 * sequences):
            if sum(isinstance(event, Emitted) for event in self.engine.step()) == sequences:
                return
        raise AssertionError("they never all decoded")

    def step(self) -> list[EngineEvent]:
        events = self.engine.step()
        load_of(self.engine)
        return events

    def overhead(self) -> Spent:
        """Of one step."""
        inside, before = self.runner.spent, Spent.since_boot()
        self.step()
        return Spent.since_boot() - before - (self.runner.spent - inside)


def publishing(steps: int, sequences: int = SEQUENCES) -> Spent:
    """Median of what a worker's loop does with the events of a step: messages for one gateway, as
    bytes, and counters. Not in it: the socket."""
    samples: list[Spent] = []

    async def run() -> None:
        async with Stage() as stage:
            limits = EngineLimits(step_tokens=1 << 12, max_sequences=sequences)
            slots = sequences * (2 + (40 + steps + 8) // BLOCK_TOKENS)
            worker = await stage.worker("decode-0", slots=slots, limits=limits)
            for index in range(sequences):
                submit = stage.submit(f"r{index}", prompt_of(40, seed=index), greedy(steps + 8))
                stage.assign(worker, submit)
            worker.node.host.start(_timed(worker.app._on_events, sequences, samples))
            await stage.until(lambda: len(samples) >= steps)
            await stage.until(lambda: not worker.engine.busy)

    warped(run)
    return median(samples)


def _timed(
    deliver: Callable[[Sequence[EngineEvent]], None], sequences: int, samples: list[Spent]
) -> Callable[[Sequence[EngineEvent]], None]:
    """Notes what steps cost in which every sequence had a token."""

    def timed(events: Sequence[EngineEvent]) -> None:
        before = Spent.since_boot()
        deliver(events)
        if sum(isinstance(event, Emitted) for event in events) == sequences:
            samples.append(Spent.since_boot() - before)

    return timed


def report(steps: int = 500) -> str:
    lines = []
    for context in (512, 2048):
        for cold in (False, True):
            decoding = DecodingEngine(context, cold=cold)
            spent = median([decoding.overhead() for _ in range(steps)])
            lines.append((f"step, context {context}, {'cold' if cold else 'warm'} caches", spent))
    lines.append(("publishing", publishing(steps)))
    return "\n".join(f"{what:32s} wall {s.wall:.3f} ms  cpu {s.cpu:.3f} ms" for what, s in lines)


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
