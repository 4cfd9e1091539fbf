"""The KV pool as the torch runner sees it: a tensor over the arena's memory, or a copy on a device.

Peers and the engine know the *host face* alone, memory that somebody else allocated. On a CPU the
runner computes in it. A device computes in a tensor of its own, and the slots that peers read or
wrote are copied between the two; whoever calls says which, so nothing is copied twice.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from common.domain.block import LayoutTag
from common.domain.errors import ServingError

_FLOAT_BYTES = 4


def host_face(layout: LayoutTag, memory: memoryview, slots: int, slot_bytes: int) -> Tensor:
    """[slots, *layout.shape] over `memory`, which stays exported as long as the tensor lives."""
    if slot_bytes < layout.block_bytes or slot_bytes % _FLOAT_BYTES:
        raise ServingError(f"a slot of {slot_bytes} bytes holds no block of {layout.block_bytes}")
    if memory.readonly or memory.nbytes < slots * slot_bytes:
        raise ServingError(f"the pool needs {slots * slot_bytes} writable bytes")
    flat = torch.frombuffer(memory, dtype=torch.float32)
    stride = slot_bytes // _FLOAT_BYTES
    block = torch.empty(layout.shape, device="meta")
    return flat.as_strided((slots, *block.shape), (stride, *block.stride()))


class TorchPool:
    def __init__(self, host: Tensor, device: Tensor) -> None:
        self._host = host
        self.tensor = device
        """Where the runner computes: the host face itself on a CPU."""

    @classmethod
    def on(cls, device: torch.device, host: Tensor) -> "TorchPool":
        if device == host.device:
            return cls(host, host)
        return cls(host, torch.zeros(host.shape, device=device))

    def copy_block(self, source: int, target: int) -> None:
        self.tensor[target] = self.tensor[source]

    def to_host(self, slots: Sequence[int]) -> None:
        self._copy(self.tensor, self._host, slots)

    def to_device(self, slots: Sequence[int]) -> None:
        self._copy(self._host, self.tensor, slots)

    @staticmethod
    def _copy(source: Tensor, target: Tensor, slots: Sequence[int]) -> None:
        if source is target or not slots:
            return
        index = torch.tensor(slots, dtype=torch.int64)
        blocks = source.index_select(0, index.to(source.device)).to(target.device)
        target.index_copy_(0, index.to(target.device), blocks)
