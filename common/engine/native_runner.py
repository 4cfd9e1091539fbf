"""The runner over the native CPU kernels: one call a step, no torch in the process.

Logits, and so tokens, are the same to the bit whatever else is in the batch, however a prompt was
cut into chunks, with any number of threads, and at every CPU level. Rows of which nobody needs more
than the most likely token never have their logits written down.
"""

from collections.abc import Sequence, Set
from itertools import accumulate
from pathlib import Path
from typing import Self

import numpy as np

from common.checkpoint.digest import weights_digest
from common.checkpoint.rope import rope_frequencies
from common.domain.block import LayoutTag
from common.domain.errors import ServingError
from common.engine.native_sampler import NativeSampler
from common.engine.penalties import changes_logits
from common.engine.runner import Batch, Draw, Drawn
from common.engine.runner_settings import RunnerSettings
from common.kernels.library import (
    Float32Array,
    Int32Array,
    Kernels,
    Level,
    NativeUnavailable,
    RaggedBatch,
    best_level,
)
from common.kernels.packed_model import PackedModel, pack_model

_SUMS = "native sums 2"
"""Counts up with every change to what the kernels compute from the same weights: blocks computed
before it must not be taken for ours."""


class NativeRunner:
    """Implements `Runner`."""

    def __init__(self, packed: PackedModel, settings: RunnerSettings) -> None:
        config = packed.config
        self._settings = settings
        self._level = _level(settings)
        self._kernels = Kernels(packed, rope_frequencies(config))
        self._sampler = NativeSampler(self._kernels, config.eos_token_ids)
        self._bound: memoryview | None = None
        self._slot_bytes = 0
        self._logits = np.empty((0, config.vocab), dtype=np.float32)
        self.layout = LayoutTag(
            dtype="bfloat16",
            block_tokens=settings.block_tokens,
            layers=config.layers,
            head_start=0,
            head_stop=config.kv_heads,
            head_dim=config.head_dim,
            arrangement="LKHTD-VT",
        )
        self.vocab = config.vocab
        self.context_tokens = config.context_tokens
        self.eos_token_ids = config.eos_token_ids
        self.weights_digest = weights_digest(_SUMS, packed.weights_digest, settings.arithmetic)
        self.weight_bytes = sum(
            matrix.tiles.nbytes for name, matrix in packed.matrices.items() if name != "embedding"
        )
        """That one step reads."""

    @classmethod
    def load(cls, model_path: Path, cache: Path, settings: RunnerSettings) -> Self:
        """Raises NativeUnavailable where the kernels cannot run this model on this machine."""
        if settings.device != "cpu":
            raise NativeUnavailable(f"native kernels compute on the CPU, not on {settings.device}")
        _level(settings)
        return cls(pack_model(model_path, settings.arithmetic, cache), settings)

    @property
    def level(self) -> str:
        return self._level.name.lower()

    def counters(self) -> dict[str, float]:
        return self._kernels.seconds()

    def bind(self, memory: memoryview, slots: int, slot_bytes: int) -> None:
        if self._bound is not None:
            raise ServingError("the runner has a pool already")
        if slot_bytes < self.layout.block_bytes:
            raise ServingError(
                f"a slot of {slot_bytes} bytes holds no block of {self.layout.block_bytes}"
            )
        if memory.readonly or memory.nbytes < slots * slot_bytes:
            raise ServingError(f"the pool needs {slots * slot_bytes} writable bytes")
        self._bound, self._slot_bytes = memory, slot_bytes
        self._kernels.bind(
            memory,
            slots,
            slot_bytes,
            self._settings.block_tokens,
            self._settings.threads,
            self._level,
        )

    def step(self, batch: Batch) -> list[Drawn]:
        needs = [_needs_logits(draw) for draw in batch.draws]
        rows = self._rows({draw.row for draw, need in zip(batch.draws, needs, strict=True) if need})
        best = self._compute(batch, [rows.get(row) for row in range(len(batch.rows))]).tolist()
        return [
            self._sampler.draw(rows[draw.row], draw) if need else Drawn(best[draw.row])
            for draw, need in zip(batch.draws, needs, strict=True)
        ]

    def forward(self, batch: Batch) -> Float32Array:
        """Logits [len(batch.rows), vocab]; writes the batch's keys and values."""
        logits = np.empty((len(batch.rows), self.vocab), dtype=np.float32)
        self._compute(batch, list(logits))
        return logits

    def copy_block(self, source: int, target: int) -> None:
        self._slot(target)[:] = self._slot(source)

    def to_host(self, slots: Sequence[int]) -> None:
        """The pool is host memory."""

    def to_device(self, slots: Sequence[int]) -> None:
        """The pool is host memory."""

    def _slot(self, slot: int) -> memoryview:
        start = slot * self._slot_bytes
        return self._pool[start : start + self.layout.block_bytes]

    @property
    def _pool(self) -> memoryview:
        if self._bound is None:
            raise ServingError("the runner was used before it was bound to a pool")
        return self._bound

    def _rows(self, wanted: Set[int]) -> dict[int, Float32Array]:
        """Memory for the logits of these rows, the same from step to step."""
        if len(self._logits) < len(wanted):
            self._logits = np.empty((len(wanted), self.vocab), dtype=np.float32)
        return dict(zip(sorted(wanted), self._logits, strict=False))

    def _compute(self, batch: Batch, logits: Sequence[Float32Array | None]) -> Int32Array:
        assert self._pool is not None
        starts = list(accumulate(map(len, batch.tables[:-1]), initial=0))
        ragged = RaggedBatch(
            tokens=batch.tokens,
            positions=batch.positions,
            starts=batch.starts,
            tables=np.concatenate(batch.tables, dtype=np.int32),
            table_starts=np.array(starts, dtype=np.int32),
            wanted=batch.rows,
        )
        return self._kernels.step(ragged, logits)


def _needs_logits(draw: Draw) -> bool:
    params = draw.params
    return params.temperature > 0 or params.logprobs is not None or changes_logits(draw)


def _level(settings: RunnerSettings) -> Level:
    best = best_level()
    level = best if settings.level == "best" else Level[settings.level.upper()]
    if best is Level.NONE:
        raise NativeUnavailable("native kernels are not built here, or the CPU has no AVX2")
    if level > best:
        raise NativeUnavailable(f"this CPU has {best.name} at most, not {level.name}")
    return level
