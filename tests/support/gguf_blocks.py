"""Random blocks of a GGUF quantization, and a tensor as gguf's reader gives it."""

import numpy as np
import numpy.typing as npt
from gguf import GGML_QUANT_SIZES, ReaderTensor
from gguf import GGMLQuantizationType as Kind

NEVER_WRITTEN = frozenset({Kind.Q4_K, Kind.Q6_K})
_HALVES = {
    Kind.Q8_0: (0,),
    Kind.Q4_0: (0,),
    Kind.Q4_1: (0, 2),
    Kind.Q4_K: (0, 2),
    Kind.Q6_K: (208,),
}
"""Where a block has its float16 numbers."""


def random_blocks(
    kind: Kind, shape: tuple[int, ...], rng: np.random.Generator
) -> npt.NDArray[np.uint8]:
    """[rows, bytes]: random codes, scales of all sizes that float16 has up to 16, some of them zero
    or denormal."""
    columns, size = GGML_QUANT_SIZES[kind]
    rows, blocks = shape[0], shape[1] // columns
    stored = rng.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
    for at in _HALVES[kind]:
        scales = rng.normal(size=(rows, blocks, 1)) * 2.0 ** rng.integers(-26, 4, (rows, blocks, 1))
        stored[..., at : at + 2] = scales.astype(np.float16).view(np.uint8)
    return stored.reshape(rows, -1)


def reader_tensor(kind: Kind, shape: tuple[int, int], data: npt.NDArray[np.uint8]) -> ReaderTensor:
    """`data` is [rows, bytes]; GGUF counts columns first."""
    sizes = np.array(shape[::-1], np.uint64)
    return ReaderTensor("made", kind, sizes, shape[0] * shape[1], data.nbytes, 0, data, None)
