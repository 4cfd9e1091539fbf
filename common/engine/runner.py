"""The one interface between the engine and whatever computes: a ragged batch in, tokens out.

Behind it stand the torch runner (any architecture, CPU and CUDA) and the mock (no model, no torch).
The engine owns which blocks exist; the runner alone touches their bytes. Drawing is part of the
call because a backend that keeps logits on a device, or computes only the head rows somebody draws
from, must see both at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from common.domain.block import LayoutTag
from common.domain.sampling import SamplingParams

Int64Array = npt.NDArray[np.int64]
Int32Array = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Draw:
    """One token to draw from the logits of one row. Several draws may share a row (n choices)."""

    row: int
    """Index into `Batch.rows`."""
    params: SamplingParams
    choice: int
    prompt: Sequence[int]
    output: Sequence[int]
    """Ids drawn so far; their count is the position that keys the random number."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of several sequences, laid end to end.

    Sequence s owns rows starts[s]:starts[s+1]. A row's key and value are written to slot
    tables[s][position // block_tokens], offset position % block_tokens, and it attends to positions
    0..position of its own sequence through the same table.
    """

    tokens: Int64Array
    """[rows]"""
    positions: Int64Array
    """[rows], consecutive within a sequence"""
    starts: Int32Array
    """[sequences + 1]"""
    tables: Sequence[Int32Array]
    """Per sequence, the slots of its blocks in order; long enough for its last position."""
    rows: Int64Array
    """Rows whose logits are wanted."""
    draws: Sequence[Draw]


@dataclass(frozen=True, slots=True)
class Drawn:
    """One token. Log-probabilities are the model's own (see SamplingParams.logprobs)."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = field(default=())
    """(id, logprob) of the most likely tokens, most likely first."""


class Runner(Protocol):
    """One model on one device. Every method is called from the engine's thread."""

    @property
    def layout(self) -> LayoutTag: ...

    @property
    def vocab(self) -> int: ...

    @property
    def context_tokens(self) -> int: ...

    @property
    def eos_token_ids(self) -> tuple[int, ...]: ...

    def bind(self, memory: memoryview, slots: int, slot_bytes: int) -> None:
        """Use `memory` (slots * slot_bytes writable bytes) as the host face of the KV pool, for
        good: a second engine on this runner would move the first one's pool away."""

    def step(self, batch: Batch) -> list[Drawn]:
        """Compute the batch, write its keys and values, return one token per draw."""

    def copy_block(self, source: int, target: int) -> None:
        """Copy one block inside the pool, for a choice that diverges inside a shared block."""

    def to_host(self, slots: Sequence[int]) -> None:
        """Make the host face of these slots current before peers read it. Nothing on a CPU."""

    def to_device(self, slots: Sequence[int]) -> None:
        """Take over bytes that arrived in the host face of these slots. Nothing on a CPU."""
