"""A runner that notes what it was asked and how long it took, and passes everything on."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from common.domain.block import LayoutTag
from common.engine.runner import Batch, Drawn, Runner


@dataclass(slots=True)
class Noted:
    """Steps since the last look."""

    batches: list[Batch] = field(default_factory=list)
    seconds: float = 0.0
    """Inside the runner's step."""


class MeteredRunner:
    """Implements Runner. The cost of noting is one append and two looks at the clock a step."""

    def __init__(self, runner: Runner) -> None:
        self.inner = runner
        self._noted = Noted()

    def take(self) -> Noted:
        noted, self._noted = self._noted, Noted()
        return noted

    @property
    def layout(self) -> LayoutTag:
        return self.inner.layout

    @property
    def vocab(self) -> int:
        return self.inner.vocab

    @property
    def context_tokens(self) -> int:
        return self.inner.context_tokens

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        return self.inner.eos_token_ids

    def bind(self, memory: memoryview, slots: int, slot_bytes: int) -> None:
        self.inner.bind(memory, slots, slot_bytes)

    def step(self, batch: Batch) -> list[Drawn]:
        start = time.perf_counter()
        drawn = self.inner.step(batch)
        self._noted.seconds += time.perf_counter() - start
        self._noted.batches.append(batch)
        return drawn

    def copy_block(self, source: int, target: int) -> None:
        self.inner.copy_block(source, target)

    def to_host(self, slots: Sequence[int]) -> None:
        self.inner.to_host(slots)

    def to_device(self, slots: Sequence[int]) -> None:
        self.inner.to_device(slots)
