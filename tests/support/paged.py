"""Any runner with a pool of scattered slots, and batches written by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from common.engine.runner import Batch, Draw, Drawn, Int32Array, Runner
from common.engine.runner_settings import RunnerSettings
from common.engine.torch_runner import TorchRunner
from tests.support.blocks import block_floats

SLOTS = 96
PADDING_BYTES = 192
"""Slots are further apart than their blocks are long."""


@dataclass(slots=True)
class Cached:
    """A sequence whose first `len(tokens)` tokens are in the pool."""

    table: Int32Array
    tokens: list[int] = field(default_factory=list)


class LogitsRunner(Runner, Protocol):
    def forward(self, batch: Batch) -> Any:
        """Logits [len(batch.rows), vocab], of whatever array type the runner has."""


def torch_bench(
    folder: Path, cache: Path, block_tokens: int = 32, device: str = "cpu"
) -> "PagedBench":
    settings = RunnerSettings(block_tokens=block_tokens, device=device)
    return PagedBench(TorchRunner.load(folder, cache, settings))


class PagedBench:
    """Every float of the pool starts as NaN: who reads what nobody wrote will show it."""

    def __init__(self, runner: LogitsRunner, slots: int = SLOTS) -> None:
        self.runner = runner
        self.slot_bytes = runner.layout.block_bytes + PADDING_BYTES
        self.memory = bytearray(b"\xff" * (slots * self.slot_bytes))
        self.runner.bind(memoryview(self.memory), slots, self.slot_bytes)
        self._slots = np.random.default_rng(0).permutation(slots).astype(np.int32).tolist()
        self._free = self._slots

    def wipe(self) -> None:
        """As new: no sequence, nothing written."""
        self.memory[:] = b"\xff" * len(self.memory)
        self._free = self._slots

    def sequence(self, tokens: int) -> Cached:
        """An empty one with slots for so many tokens."""
        blocks = -(-tokens // self.runner.layout.block_tokens)
        taken, self._free = self._free[:blocks], self._free[blocks:]
        assert len(taken) == blocks, "the pool of the test is too small"
        return Cached(np.array(taken, dtype=np.int32))

    def give_back(self, cached: Cached) -> None:
        """Its blocks go to whoever asks next, with what is in them."""
        self._free = [*cached.table.tolist(), *self._free]
        cached.tokens.clear()

    def batch(
        self, parts: Sequence[tuple[Cached, Sequence[int]]], draws: Sequence[Draw] = ()
    ) -> Batch:
        """Appends tokens to sequences; asks for the logits of every row."""
        positions: list[int] = []
        starts = [0]
        for cached, tokens in parts:
            positions += range(len(cached.tokens), len(cached.tokens) + len(tokens))
            cached.tokens += tokens
            starts.append(len(positions))
        return Batch(
            tokens=np.array([token for _, tokens in parts for token in tokens], dtype=np.int64),
            positions=np.array(positions, dtype=np.int64),
            starts=np.array(starts, dtype=np.int32),
            tables=[cached.table for cached, _ in parts],
            rows=np.arange(len(positions), dtype=np.int64),
            draws=draws,
        )

    def forward(self, parts: Sequence[tuple[Cached, Sequence[int]]]) -> Any:
        return self.runner.forward(self.batch(parts))

    def step(
        self, parts: Sequence[tuple[Cached, Sequence[int]]], draws: Sequence[Draw]
    ) -> list[Drawn]:
        return self.runner.step(self.batch(parts, draws))

    def block(self, slot: int) -> np.ndarray:
        """A block's floats in the host face, in the canonical arrangement."""
        start = slot * self.slot_bytes
        data = memoryview(self.memory)[start : start + self.runner.layout.block_bytes]
        return block_floats(self.runner.layout, data)
