"""Random matrices of each stored kind, packed."""

import numpy as np

from common.checkpoint.stored import Q4, Q8, Array, Bf16, StoredTensor, round_bfloat16
from common.kernels.packed_matrix import Kind, PackedMatrix
from common.kernels.tiles import pack, pack_int8

BF16_KINDS = (Kind.BF16, Kind.Q8, Kind.Q4)
"""That become bfloat16 when they are read."""


def random_matrix(kind: Kind, rows: int, columns: int, seed: int) -> PackedMatrix:
    """Weights around one in size; Q8 and Q4 need columns that are a multiple of 32."""
    rng = np.random.default_rng(seed)
    if kind is Kind.INT8:
        return pack_int8(rng.normal(size=(rows, columns)).astype(np.float32))
    return pack(random_stored(kind, rows, columns, rng))


def random_stored(kind: Kind, rows: int, columns: int, rng: np.random.Generator) -> StoredTensor:
    def halves(size: float) -> Array:
        return (rng.normal(size=(rows, columns // 32)) * size).astype(np.float16)

    shape = (rows, columns)
    match kind:
        case Kind.Q8:
            return Q8(rng.integers(-128, 128, shape, dtype=np.int8), halves(2.0**-6))
        case Kind.Q4:
            codes = rng.integers(0, 16, shape, dtype=np.uint8)
            return Q4(codes, halves(2.0**-3), halves(1.0))
        case _:
            return Bf16(round_bfloat16(rng.normal(size=shape).astype(np.float32)))
