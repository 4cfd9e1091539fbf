"""A matrix as the native kernels read it: tiles of one kind, strip after strip.

A strip is 16 rows of a row-major [out, in] weight, cut into tiles of 32 columns (64 of QUADS),
which lie one after another. Rows are padded with zeros to a multiple of 32, columns
to whole tiles.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

STRIP_ROWS = 16
PADDED_TO_ROWS = 32


class Kind(IntEnum):
    """The numbers are part of the kernels' interface."""

    BF16 = 0
    """uint16 [16 rows][32 columns]"""
    Q8 = 1
    """int8 codes [16][32], float16 scales [16]; weight = bf16(scale * code)"""
    Q4 = 2
    """Four groups of four rows: uint16 [32 columns] with the code of row j of the group in bits 4j
    to 4j + 3; then float16 scales [16] and minimums [16]; weight = bf16(scale * code + minimum)"""
    QUADS4 = 3
    """For inputs of int8. Codes of two blocks [8 quads of columns][16 rows][4], those of the first
    in the lower half of a byte; then float16 scales [2 blocks][16] and minimums [2][16];
    weight = scale * code + minimum"""
    QUADS8 = 4
    """For inputs of int8. uint8 codes [2 blocks][8 quads of columns][16 rows][4], float16 scales
    [2][16]; weight = scale * (code - 128)"""

    @property
    def tile_columns(self) -> int:
        return 64 if self in (Kind.QUADS4, Kind.QUADS8) else 32

    @property
    def tile_bytes(self) -> int:
        return _TILE_BYTES[self]


_TILE_BYTES = {Kind.BF16: 1024, Kind.Q8: 544, Kind.Q4: 320, Kind.QUADS4: 640, Kind.QUADS8: 1088}


@dataclass(frozen=True, slots=True, eq=False)
class PackedMatrix:
    kind: Kind
    rows: int
    """Without padding."""
    cols: int
    """Without padding."""
    tiles: npt.NDArray[np.uint8]
    """[bytes]"""

    @property
    def strips(self) -> int:
        return padded_rows(self.rows) // STRIP_ROWS

    @property
    def column_tiles(self) -> int:
        return -(-self.cols // self.kind.tile_columns)


def padded_rows(rows: int) -> int:
    return -(-rows // PADDED_TO_ROWS) * PADDED_TO_ROWS
