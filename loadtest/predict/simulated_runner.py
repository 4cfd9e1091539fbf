"""A runner that computes nothing and spends the time a step would take. Implements Runner."""

from collections.abc import Callable, Sequence

import numpy as np

from common.engine.mock import VOCAB, mock_layout
from common.engine.runner import Batch, Drawn
from common.engine.step_cost import StepShape

TOKEN = 7
"""What it always draws."""


def shape_of(batch: Batch) -> StepShape:
    """A sequence's single row is a decode, also where it ends a prompt."""
    ends = batch.starts[1:]
    counts = np.diff(batch.starts).astype(np.int64)
    reach = batch.positions[ends - 1] + 1
    single = counts == 1
    new, last = counts[~single], reach[~single]
    pairs = new * (last - new) + new * (new + 1) // 2
    return StepShape(
        decode_rows=int(single.sum()),
        decode_context_tokens=int(reach[single].sum()),
        prefill_tokens=int(new.sum()),
        prefill_pairs=int(pairs.sum()),
    )


class SimulatedRunner:
    def __init__(
        self, block_tokens: int, context_tokens: int, spend: Callable[[StepShape], None]
    ) -> None:
        self.layout = mock_layout(block_tokens)
        self.vocab = VOCAB
        self.context_tokens = context_tokens
        self.eos_token_ids: tuple[int, ...] = ()
        self._spend = spend

    def bind(self, memory: memoryview, slots: int, slot_bytes: int) -> None:
        """There are no bytes."""

    def step(self, batch: Batch) -> list[Drawn]:
        self._spend(shape_of(batch))
        return [Drawn(TOKEN)] * len(batch.draws)

    def copy_block(self, source: int, target: int) -> None:
        """There are no bytes."""

    def to_host(self, slots: Sequence[int]) -> None:
        """There are no bytes."""

    def to_device(self, slots: Sequence[int]) -> None:
        """There are no bytes."""
