"""The FLOP peak as torch reaches it: a big square product in the reference's float32."""

import time

import torch

_SIDE = 2048
_REPEATS = 3


def peak_flops(threads: int) -> float:
    """Operations a second. Sets torch's thread count, which is the whole process's."""
    torch.set_num_threads(threads)
    a, b = torch.ones(_SIDE, _SIDE), torch.ones(_SIDE, _SIDE)
    best = min(_seconds(a, b) for _ in range(1 + _REPEATS))
    return 2 * _SIDE**3 / best


def _seconds(a: torch.Tensor, b: torch.Tensor) -> float:
    start = time.perf_counter()
    torch.mm(a, b)
    return time.perf_counter() - start
