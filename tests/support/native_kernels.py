"""The native kernels' functions under C names, each with the matrix unit's arithmetic set.

Panels are float32 [features, 16]; what a function writes is a new array. One object is one level.
C reads as far as it is told: an array that is too short would be a test of what lies behind it.
"""

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_float, c_int32, c_size_t, c_void_p
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from common.kernels.packed_matrix import Kind, PackedMatrix
from tests.support.native_unit import native_unit

Float32Array = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.uint16]
"""bfloat16"""

LANES = 16
SOURCE = Path(__file__).with_name("native_kernels.cpp").read_text()


class Matrix(ctypes.Structure):
    """Of native/model.h."""

    _fields_ = [
        *((name, c_int32) for name in ("stored", "rows", "columns")),
        *((name, c_void_p) for name in ("tiles", "bias")),
    ]


class Operands(ctypes.Structure):
    """`count` products; from one to the next A is `a_step` and B `b_step` elements on."""

    _fields_ = [
        *((name, c_void_p) for name in ("a", "b")),
        *((name, c_size_t) for name in ("stride", "next", "a_step", "b_step", "b_next")),
        *((name, c_int32) for name in ("count", "from_zero")),
    ]


class Attend(ctypes.Structure):
    """Sixteen or thirty-two lanes over one layer of a pool."""

    _fields_ = [
        *((name, c_void_p) for name in ("pool", "table", "queries", "owners", "positions")),
        *((name, c_int32) for name in ("block_tokens", "kv_heads", "head_dim", "sources")),
        *((name, c_int32) for name in ("states", "tokens")),
    ]


class NativeKernels:
    def __init__(self, folder: Path, level: str) -> None:
        self.library = native_unit(folder, SOURCE, level)
        if not self.library.permitted():
            pytest.skip("the kernel refuses this process the tile registers")

    def expand(self, kind: Kind, tile: Bytes) -> Codes:
        assert tile.nbytes == kind.tile_bytes
        out = np.zeros((LANES, 32), np.uint16)
        self.library.expand_tile(int(kind), _data(tile), _data(out))
        return out

    def read_row(self, matrix: PackedMatrix, row: int) -> Float32Array:
        assert 0 <= row < matrix.rows
        out = np.zeros(matrix.cols, np.float32)
        self.library.embed(byref(_matrix(matrix, None)), row, _data(out))
        return out

    def tile_products(
        self, tiles: int, operands: Operands, states: int, onto: Float32Array | None = None
    ) -> Float32Array:
        """[states, tiles, 16, 16]; added to `onto` where it is given."""
        shape = (states, tiles, LANES, LANES)
        out = np.full(shape, np.nan, np.float32) if onto is None else onto.copy()
        operands.from_zero = onto is None
        self.library.products(tiles, states, byref(operands), _data(out))
        return out

    def strip_products(
        self, matrix: PackedMatrix, pair: int, panels: Sequence[Bytes]
    ) -> Float32Array:
        """[panels, 32 rows, 16]; one panel or two."""
        out = np.full((len(panels), 32, LANES), np.nan, np.float32)
        size = self.library.packed_size(int(matrix.kind), matrix.cols)
        assert all(panel.nbytes == size for panel in panels)
        pointers = (c_void_p * 2)(*(_data(panel) for panel in panels))
        call = self.library.strips
        call(byref(_matrix(matrix, None)), pair, len(panels), pointers, _data(out))
        return out

    def multiply(
        self, matrix: PackedMatrix, panels: Bytes, threads: int, bias: Float32Array | None = None
    ) -> Float32Array:
        """[panels, rows padded to 32, 16] of packed panels [panels, bytes]."""
        count, size = panels.shape
        assert size == self.library.packed_size(int(matrix.kind), matrix.cols)
        assert bias is None or len(bias) >= matrix.rows
        out = np.full((count, matrix.strips * LANES, LANES), np.nan, np.float32)
        whole = _matrix(matrix, bias)
        self.library.times(byref(whole), _data(panels), c_size_t(size), count, threads, _data(out))
        return out

    def pack(self, kind: Kind, panel: Float32Array, tokens: int = LANES) -> Bytes:
        """The first `tokens` lanes count."""
        assert panel.shape[1:] == (LANES,)
        size = self.library.packed_size(int(kind), len(panel))
        out = np.zeros(size, np.uint8)
        self.library.pack_panel(int(kind), _data(panel), len(panel), tokens, _data(out))
        return out

    def rms_norm(self, panel: Float32Array, weight: Float32Array, eps: float) -> Float32Array:
        assert panel.shape == (len(weight), LANES)
        out = np.zeros_like(panel)
        self.library.norm(_data(panel), _data(weight), len(panel), c_float(eps), _data(out))
        return out

    def rotate(self, head: Float32Array, cos: Float32Array, sin: Float32Array) -> Float32Array:
        assert cos.shape == sin.shape == (len(head) // 2, LANES)
        out = head.copy()
        self.library.turn(_data(out), len(head), _data(cos), _data(sin))
        return out

    def apply(self, function: str, x: Float32Array) -> Float32Array:
        """`function` is powers, bf16_powers, reciprocals or silus; x is a multiple of 32 long."""
        out = np.zeros_like(x)
        getattr(self.library, function)(_data(x), x.size, _data(out))
        return out

    def transpose(self, rows: Float32Array) -> Float32Array:
        """[16, 32] to [32, 16]"""
        assert rows.shape == (LANES, 32)
        out = np.zeros((32, LANES), np.float32)
        self.library.squares(_data(rows), rows.size, _data(out))
        return out

    def attend(self, call: Attend) -> Float32Array:
        """[states, head_dim, 16]"""
        out = np.zeros((call.states, call.head_dim, LANES), np.float32)
        self.library.attend(byref(call), _data(out))
        return out


def operands(left: Codes, right: Codes, tiles: int) -> Operands:
    """left [count, tiles * 16 rows, 32] and right [states, count, 512], both contiguous."""
    count = len(left)
    return Operands(
        a=left.ctypes.data,
        b=right.ctypes.data,
        stride=64,
        next=LANES * 64,
        a_step=tiles * LANES * 32,
        b_step=512,
        b_next=count * 512,
        count=count,
    )


def _matrix(matrix: PackedMatrix, bias: Float32Array | None) -> Matrix:
    return Matrix(
        int(matrix.kind),
        matrix.rows,
        matrix.cols,
        matrix.tiles.ctypes.data,
        None if bias is None else bias.ctypes.data,
    )


def _data(array: npt.NDArray[np.generic]) -> c_void_p:
    assert array.flags.c_contiguous
    return c_void_p(array.ctypes.data)
