"""The native drawing of tokens under C names, and the parts of it that tests look at one by one."""

import ctypes
from ctypes import POINTER, c_double, c_int32, c_uint32, c_uint64, c_void_p
from pathlib import Path

import numpy as np
import numpy.typing as npt

from common.engine.native_sampler import DrawParams
from tests.support.native_unit import native_unit

Float32Array = npt.NDArray[np.float32]

SOURCE = """
#include "sample.h"

using namespace TF_LEVEL;

extern "C" {
int32_t tf_draw(const float* logits, int32_t vocab, const DrawParams* params) {
  thread_local DrawScratch scratch;
  return draw(logits, vocab, *params, scratch);
}
int32_t tf_argmax(const float* logits, int32_t vocab) { return argmax(logits, vocab); }
double total(const float* logits, int32_t vocab, double temperature) {
  DrawScratch scratch;
  return Ranking(logits, vocab, highest(logits, vocab), temperature, scratch).total();
}
void sixteen_powers(const float* x, float* powers) { store(powers, exp2(load(x))); }
double uniform(uint64_t seed, uint32_t choice, uint64_t position) {
  return twinfleet::uniform(seed, choice, position);
}
}
"""


class NativeDraws:
    """Rows are [vocab], contiguous."""

    def __init__(self, folder: Path, level: str) -> None:
        self.library = native_unit(folder, SOURCE, level)
        self.library.tf_draw.argtypes = [c_void_p, c_int32, POINTER(DrawParams)]
        self.library.tf_argmax.argtypes = [c_void_p, c_int32]
        self.library.total.argtypes = [c_void_p, c_int32, c_double]
        self.library.total.restype = c_double
        self.library.sixteen_powers.argtypes = [c_void_p, c_void_p]
        self.library.uniform.argtypes = [c_uint64, c_uint32, c_uint64]
        self.library.uniform.restype = c_double

    def draw(self, logits: Float32Array, params: ctypes.Structure) -> int:
        return self.library.tf_draw(logits.ctypes.data, len(logits), ctypes.byref(params))

    def argmax(self, logits: Float32Array) -> int:
        return self.library.tf_argmax(logits.ctypes.data, len(logits))

    def total(self, logits: Float32Array, temperature: float) -> float:
        return self.library.total(logits.ctypes.data, len(logits), temperature)

    def uniform(self, seed: int, choice: int, position: int) -> float:
        return self.library.uniform(seed, choice, position)

    def exp2(self, x: Float32Array) -> Float32Array:
        padded = np.zeros((len(x) + 15) // 16 * 16, dtype=np.float32)
        padded[: len(x)] = x
        powers = np.empty_like(padded)
        for start in range(0, len(padded), 16):
            offset = 4 * start
            self.library.sixteen_powers(padded.ctypes.data + offset, powers.ctypes.data + offset)
        return powers[: len(x)]
