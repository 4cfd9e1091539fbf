"""A runner bound to a pool that is full already, and everything the parts of the benchmark need.

The pool is shared memory that was written before, as a worker's arena is. Its bytes are small
random numbers: a step takes the same time whatever the keys and values are, so contexts of any
length exist without having been computed. Slots of a sequence are scattered.
"""

import mmap
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from common.domain.block import Dtype
from common.engine.allocation import blocks_for
from common.engine.bench.engine_streams import EngineStreams
from common.engine.bench.floors import StepNeeds, Work
from common.engine.bench.metered import MeteredRunner
from common.engine.bench.pieces import Piece, batch_of
from common.engine.bench.timing import Repeats, Timing, measure
from common.engine.bench.workload import prompt_of
from common.engine.runner import Int32Array, Runner

_TILE_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class Measured:
    timing: Timing
    work: Work
    steps: float
    forward_seconds: float
    """Inside the runner; this, `work` and `steps` are means of one repetition."""


class Rig:
    def __init__(self, runner: Runner, needs: StepNeeds, slots: int) -> None:
        self.runner = MeteredRunner(runner)
        self.needs = needs
        self.slots = slots
        self._prompts = 1
        slot_bytes = runner.layout.block_bytes
        self._memory = mmap.mmap(-1, slots * slot_bytes)
        _fill(self._memory, runner.layout.dtype)
        self.runner.bind(memoryview(self._memory), slots, slot_bytes)

    def tables(self, sequences: int, tokens: int, shared: int = 0) -> list[Int32Array]:
        """Block tables, each long enough for so many tokens. Beyond the blocks of the first
        `shared` tokens they are disjoint."""
        block_tokens = self.runner.layout.block_tokens
        blocks, common = blocks_for(tokens, block_tokens), shared // block_tokens
        order = np.random.default_rng(0).permutation(self.slots).astype(np.int32)
        tables = np.split(order[: sequences * blocks], sequences)
        for table in tables:
            table[:common] = tables[0][:common]
        return tables

    def tokens(self, count: int, seed: int = 0) -> list[int]:
        return prompt_of(self.runner.vocab, count, seed)

    def prompts(self, count: int, length: int) -> list[list[int]]:
        """No two that were ever given are alike, so that no prefix cache knows them."""
        seeds = range(self._prompts, self._prompts + count)
        self._prompts += count
        return [self.tokens(length, seed) for seed in seeds]

    def step(self, pieces: list[Piece]) -> Callable[[], object]:
        """The same step again and again: it overwrites what it wrote."""
        batch = batch_of(pieces)
        return lambda: self.runner.step(batch)

    def engine(self) -> EngineStreams:
        """A new one, nothing cached. One at a time: they share the pool."""
        return EngineStreams(self.runner, self.slots)

    def measure(self, call: Callable[[], object], repeats: Repeats) -> Measured:
        """Not the first run, which pays for what is allocated once."""
        call()
        self.runner.take()
        timing = measure(call, repeats)
        noted = self.runner.take()
        return Measured(
            timing,
            self.needs.total(noted.batches).over(timing.repeats),
            len(noted.batches) / timing.repeats,
            noted.seconds / timing.repeats,
        )


def _fill(memory: mmap.mmap, dtype: Dtype) -> None:
    pool = np.frombuffer(memory, dtype=np.uint8)
    tile = _noise(dtype, min(_TILE_BYTES, len(pool) + 4))
    for start in range(0, len(pool), len(tile)):
        pool[start : start + len(tile)] = tile[: len(pool) - start]


def _noise(dtype: Dtype, count: int) -> npt.NDArray[np.uint8]:
    """About `count` bytes of the type."""
    values = np.random.default_rng(0).standard_normal(count // 4, dtype=np.float32)
    if dtype == "bfloat16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return values.astype(dtype).view(np.uint8)
