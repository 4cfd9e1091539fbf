"""One token for one draw, without torch: the native kernels rank, cut and draw.

They know nothing of penalties. What a draw makes of its row's logits stands there for as long as it
takes, and then the model's own again: another draw may share the row, and log-probabilities are the
model's own. So rows are writable, and nobody else reads them meanwhile.
"""

import ctypes
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from common.engine.penalties import adjustment, changes_logits
from common.engine.runner import Draw, Drawn

Float32Array = npt.NDArray[np.float32]
Int64Array = npt.NDArray[np.int64]


class DrawParams(ctypes.Structure):
    """`DrawParams` of common/kernels/native/draw_params.h."""

    _fields_ = [
        ("temperature", ctypes.c_double),
        ("top_p", ctypes.c_double),
        ("min_p", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        ("position", ctypes.c_uint64),
        ("choice", ctypes.c_uint32),
        ("top_k", ctypes.c_int32),
    ]


class Drawing(Protocol):
    """The native kernels' `draw`: one token of a row [vocab], contiguous. It takes DrawParams."""

    def draw(self, logits: Float32Array, params: ctypes.Structure) -> int: ...


def draw_params(draw: Draw) -> DrawParams:
    params = draw.params
    return DrawParams(
        params.temperature,
        params.top_p,
        params.min_p,
        params.seed,
        len(draw.output),
        draw.choice,
        params.top_k,
    )


class NativeSampler:
    def __init__(self, kernels: Drawing, eos_token_ids: Sequence[int]) -> None:
        self._kernels = kernels
        self._eos_token_ids = tuple(eos_token_ids)

    def draw(self, row: Float32Array, draw: Draw) -> Drawn:
        """`row` has the logits [vocab] that the draw names, and is the same afterwards."""
        token = self._adjusted(row, draw) if changes_logits(draw) else self._choose(row, draw)
        wanted = draw.params.logprobs
        return Drawn(token) if wanted is None else describe(row, token, wanted)

    def _adjusted(self, row: Float32Array, draw: Draw) -> int:
        change = adjustment(draw, len(row), self._eos_token_ids)
        own = row[change.ids]
        row[change.ids] = change.apply(own)
        token = self._choose(row, draw)
        row[change.ids] = own
        return token

    def _choose(self, row: Float32Array, draw: Draw) -> int:
        return self._kernels.draw(row, draw_params(draw))


def describe(row: Float32Array, token: int, count: int) -> Drawn:
    """A drawn token with its log-probability and those of the `count` most likely ids."""
    count = min(count, len(row))
    ids = np.concatenate(([token], most_likely(row, count)))
    # NaN counts as -inf, like where tokens are drawn.
    peak = np.fmax.reduce(row)
    with np.errstate(invalid="ignore", divide="ignore"):
        total = np.nansum(np.exp(row - peak), dtype=np.float64)
        logprobs = np.nan_to_num(row[ids] - peak - np.log(total), nan=-np.inf, neginf=-np.inf)
    values = logprobs.tolist()
    top = tuple(zip(ids[1:].tolist(), values[1:], strict=True))
    return Drawn(token, values[0], top)


def most_likely(row: Float32Array, count: int) -> Int64Array:
    """The ids of the `count` highest logits, falling, ties to the lowest id."""
    if count == 0:
        return np.empty(0, dtype=np.int64)
    falling = -row  # NaN goes to the end of any sort
    border = np.partition(falling, count - 1)[count - 1]
    candidates = np.flatnonzero(~(falling > border))
    return candidates[np.argsort(falling[candidates], kind="stable")[:count]]
