"""What the bits of native logits are compared with: one token at a time, alone, on one thread.

An `Expected` is computed once for a model and an arithmetic; a `Rig` computes the same texts in
another way, at some level, with some threads and blocks. Its answers must be equal, not close.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from common.engine.runner_settings import CpuLevel, RunnerSettings
from tests.support.native_bench import native_bench
from tests.support.paged import Cached, PagedBench

Float32Array = npt.NDArray[np.float32]
MAX_BATCH = 64


@dataclass(frozen=True, slots=True)
class Setup:
    level: CpuLevel = "best"
    threads: int = 1
    block_tokens: int = 32

    def __str__(self) -> str:
        return f"{self.level}-{self.threads}t-{self.block_tokens}"


@dataclass(frozen=True, slots=True)
class Expected:
    path: Path
    cache: Path
    arithmetic: str
    texts: list[list[int]]
    logits: list[Float32Array]
    """Of each text: [tokens, vocab], what follows each token."""

    @classmethod
    def one_by_one(
        cls, path: Path, cache: Path, arithmetic: str, texts: list[list[int]]
    ) -> "Expected":
        bench = native_bench(path, cache, RunnerSettings(arithmetic=arithmetic))
        logits = []
        for text in texts:
            bench.wipe()
            cached = bench.sequence(len(text))
            logits.append(np.concatenate([bench.forward([(cached, [token])]) for token in text]))
        assert all(np.isfinite(rows).all() for rows in logits)
        assert len(np.unique(np.concatenate(logits), axis=0)) > len(texts[0])
        return cls(path, cache, arithmetic, texts, logits)


class Stream:
    """A text on its way through the pool."""

    def __init__(self, rig: "Rig", text: int, tokens: int) -> None:
        self.text = text
        self.tokens = rig.expected.texts[text][:tokens]
        self.cached: Cached = rig.bench.sequence(tokens)

    def share(self, other: "Stream", blocks: int, block_tokens: int) -> None:
        """Read the first blocks that another one computed."""
        assert not self.cached.tokens
        self.cached.table[:blocks] = other.cached.table[:blocks]
        self.cached.tokens += self.tokens[: blocks * block_tokens]


class Rig:
    def __init__(self, expected: Expected, setup: Setup, most_tokens: int | None = None) -> None:
        """Slow ones cut their texts to `most_tokens`. A batch may hold MAX_BATCH sequences of
        `batch_tokens` each."""
        self.is_slow = most_tokens is not None
        self.setup = setup
        self.expected = expected
        self.lengths = [len(text[:most_tokens]) for text in expected.texts]
        self.batch_tokens = min(min(self.lengths), 48)
        settings = RunnerSettings(
            block_tokens=setup.block_tokens,
            threads=setup.threads,
            arithmetic=expected.arithmetic,
            level=setup.level,
        )
        blocks = -(-self.batch_tokens // setup.block_tokens) * MAX_BATCH
        slots = blocks + 4 * -(-max(self.lengths) // setup.block_tokens)
        self.bench: PagedBench = native_bench(expected.path, expected.cache, settings, slots)

    def stream(self, text: int = 0, tokens: int | None = None) -> Stream:
        return Stream(self, text, self.lengths[text] if tokens is None else tokens)

    def step(self, parts: Sequence[tuple[Stream, int]], last_only: bool = False) -> None:
        """So many more tokens of each, in one batch; their logits must be the expected ones."""
        begins = [len(stream.cached.tokens) for stream, _ in parts]
        batch = self.bench.batch(
            [
                (stream.cached, stream.tokens[begin : begin + count])
                for (stream, count), begin in zip(parts, begins, strict=True)
            ]
        )
        wanted = [
            self.expected.logits[stream.text][begin : begin + count]
            for (stream, count), begin in zip(parts, begins, strict=True)
        ]
        if last_only:
            batch = replace(batch, rows=np.cumsum([count for _, count in parts]) - 1)
            wanted = [rows[-1:] for rows in wanted]
        assert np.array_equal(self.bench.runner.forward(batch), np.concatenate(wanted))

    def finish(self, stream: Stream, sizes: Sequence[int]) -> None:
        """The rest of a stream, in pieces of these sizes by turns."""
        self.advance(stream, len(stream.tokens), sizes)

    def advance(self, stream: Stream, tokens: int, sizes: Sequence[int]) -> None:
        turn = 0
        while (left := tokens - len(stream.cached.tokens)) > 0:
            self.step([(stream, min(left, sizes[turn % len(sizes)]))])
            turn += 1
