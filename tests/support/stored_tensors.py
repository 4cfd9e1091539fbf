"""Random matrices of each stored kind, packed."""

import numpy as np

from common.checkpoint.stored import Q4, Q8, Array, Bf16, StoredTensor, round_bfloat16
from common.kernels.packed_matrix import Kind, PackedMatrix
from common.kernels.tiles import pack, pack_quads

BF16_KINDS = (Kind.BF16, Kind.Q8, Kind.Q4)
"""That become bfloat16 when they are read."""
INT8_KINDS = (Kind.QUADS4, Kind.QUADS8)
"""That take inputs of int8."""


def random_matrix(kind: Kind, rows: int, columns: int, seed: int) -> PackedMatrix:
    """Weights around one in size; all kinds but BF16 need columns that are a multiple of 32."""
    rng = np.random.default_rng(seed)
    match kind:
        case Kind.QUADS8:
            return pack_quads(random_stored(Kind.Q8, rows, columns, rng))
        case Kind.QUADS4:
            return pack_quads(random_stored(Kind.Q4, rows, columns, rng))
        case _:
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
