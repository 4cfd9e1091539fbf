"""The tensors of one checkpoint on one device, by their Hugging Face names.

On a CPU a tensor is the checkpoint's own memory: several workers that map one prepared file share
its pages, so nothing here copies, fuses or writes. On another device each tensor is copied once.
"""

import warnings
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


class Weights:
    def __init__(self, arrays: Mapping[str, npt.NDArray[np.float32]], device: torch.device) -> None:
        self._arrays = arrays
        self._device = device

    def tensor(self, name: str) -> Tensor:
        with warnings.catch_warnings():
            # The mapping is read-only, torch has no read-only tensors, and nothing writes weights.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            return torch.from_numpy(self._arrays[name]).to(self._device)

    def optional(self, name: str) -> Tensor | None:
        return self.tensor(name) if name in self._arrays else None
