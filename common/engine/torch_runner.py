"""The runner that is plain torch: any architecture in the table, on a CPU or a CUDA device.

Float32 throughout. Rows of a batch never meet outside attention, and attention reads one sequence's
blocks at a time, so greedy ids do not depend on batch, chunking or cached prefix; sums may round
differently with the shape of a matrix product, so bits may.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from common.checkpoint.config import ModelConfig
from common.checkpoint.prepared import Prepared, prepare
from common.domain.block import LayoutTag
from common.domain.errors import ServingError
from common.engine.heap import keep_freed_memory
from common.engine.runner import Batch, Drawn, Int64Array
from common.engine.runner_settings import RunnerSettings
from common.engine.sampler import Sampler
from common.engine.torch_pool import TorchPool, host_face
from common.model.architecture import build_decoder
from common.model.attention.paged import PagedAttention
from common.model.weights import Weights


class TorchRunner:
    """Implements `Runner`."""

    def __init__(self, prepared: Prepared, settings: RunnerSettings) -> None:
        config = prepared.config
        self._config: ModelConfig = config
        self._device = torch.device(settings.device)
        self._decoder = build_decoder(config, Weights(prepared.weights, self._device))
        self._sampler = Sampler(config.eos_token_ids)
        self._layout = LayoutTag(
            dtype="float32",
            block_tokens=settings.block_tokens,
            layers=config.layers,
            head_start=0,
            head_stop=config.kv_heads,
            head_dim=config.head_dim,
        )
        self._weights_digest = prepared.weights_digest
        self._bound: TorchPool | None = None

    @classmethod
    def load(cls, model_path: Path, cache: Path, settings: RunnerSettings) -> Self:
        """Sets torch's thread count and the C heap's habits, which are the whole process's."""
        torch.set_num_threads(settings.threads)
        keep_freed_memory()
        return cls(prepare(model_path, settings.arithmetic, cache), settings)

    @property
    def layout(self) -> LayoutTag:
        return self._layout

    @property
    def vocab(self) -> int:
        return self._config.vocab

    @property
    def context_tokens(self) -> int:
        return self._config.context_tokens

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        return self._config.eos_token_ids

    @property
    def weights_digest(self) -> str:
        return self._weights_digest

    def bind(self, memory: memoryview, slots: int, slot_bytes: int) -> None:
        if self._bound is not None:
            raise ServingError("the runner has a pool already")
        host = host_face(self._layout, memory, slots, slot_bytes)
        self._bound = TorchPool.on(self._device, host)

    @torch.inference_mode()
    def step(self, batch: Batch) -> list[Drawn]:
        return self._sampler.draw(self.forward(batch), batch.draws)

    @torch.inference_mode()
    def forward(self, batch: Batch) -> Tensor:
        """Logits [len(batch.rows), vocab] float32; writes the batch's keys and values."""
        attention = PagedAttention(
            self._pool.tensor, self._config.heads, batch.positions, batch.starts, batch.tables
        )
        return self._decoder.forward(
            self._index(batch.tokens),
            self._index(batch.positions),
            self._index(batch.rows),
            attention,
        )

    def copy_block(self, source: int, target: int) -> None:
        self._pool.copy_block(source, target)

    def to_host(self, slots: Sequence[int]) -> None:
        self._pool.to_host(slots)

    def to_device(self, slots: Sequence[int]) -> None:
        self._pool.to_device(slots)

    @property
    def _pool(self) -> TorchPool:
        if self._bound is None:
            raise ServingError("the runner was used before it was bound to a pool")
        return self._bound

    def _index(self, values: Int64Array) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._device)
