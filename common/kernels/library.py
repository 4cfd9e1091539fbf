"""The native kernels as Python objects: one class over the C functions of `native/abi.cpp`.

Calls release the interpreter's lock for as long as they compute. Arrays that a call only reads are
kept alive by the caller, or by the `Kernels` object where it says so.
"""

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_double, c_float, c_int32, c_size_t, c_uint8, c_void_p
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

import numpy as np
import numpy.typing as npt

from common.checkpoint.config import ModelConfig
from common.domain.errors import ServingError
from common.kernels.build import built_library
from common.kernels.packed_matrix import PackedMatrix
from common.kernels.packed_model import PackedModel

Float32Array = npt.NDArray[np.float32]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]

PHASES = ("norm", "qkv", "rotate", "attention", "output", "gate_up", "down", "head")
"""In the order of `phase::Phase` in native/engine.h."""


class Level(IntEnum):
    """What a CPU can do; each level does the same arithmetic, to the bit."""

    NONE = 0
    AVX2 = 1
    AVX512 = 2
    AMX = 3


class NativeUnavailable(ServingError):
    """This machine, or this model, cannot use the native kernels; the message says why."""


class _Shape(ctypes.Structure):
    _fields_ = [
        *((name, c_int32) for name in ("hidden", "layers", "heads", "kv_heads", "head_dim")),
        *((name, c_int32) for name in ("intermediate", "vocab")),
        ("eps", c_float),
    ]


class _Matrix(ctypes.Structure):
    _fields_ = [
        *((name, c_int32) for name in ("stored", "rows", "columns")),
        *((name, c_void_p) for name in ("tiles", "bias")),
    ]


class _Pool(ctypes.Structure):
    _fields_ = [
        ("memory", c_void_p),
        ("slot_bytes", c_size_t),
        ("slots", c_int32),
        ("block_tokens", c_int32),
    ]


class _Batch(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("tokens", "positions", "starts", "tables", "table_starts")),
        *((name, c_void_p) for name in ("wanted", "logits", "best")),
        ("sequences", c_int32),
        ("wanted_rows", c_int32),
    ]


@dataclass(frozen=True, slots=True)
class RaggedBatch:
    """As in the engine's batch, the tables laid end to end. All arrays contiguous."""

    tokens: Int64Array
    positions: Int64Array
    starts: Int32Array
    tables: Int32Array
    table_starts: Int32Array
    """[sequences]: where each one's table begins."""
    wanted: Int64Array
    """Rows whose best id is wanted."""


@cache
def load_library() -> ctypes.CDLL:
    path = built_library()
    if not path.exists():
        raise NativeUnavailable("the native kernels are not built here: make setup builds them")
    library = ctypes.CDLL(str(path))
    library.tf_peak_flops.argtypes = [c_int32, c_int32]
    library.tf_peak_flops.restype = c_double
    library.tf_open.restype = c_void_p
    library.tf_open.argtypes = [POINTER(_Shape), POINTER(_Matrix), POINTER(c_void_p)]
    library.tf_bind.argtypes = [c_void_p, POINTER(_Pool), c_int32, c_int32]
    library.tf_step.argtypes = [c_void_p, POINTER(_Batch)]
    library.tf_draw.argtypes = [c_void_p, c_void_p, c_void_p]
    library.tf_seconds.argtypes = [c_void_p]
    library.tf_seconds.restype = POINTER(c_double)
    library.tf_close.argtypes = [c_void_p]
    library.tf_close.restype = None
    return library


def best_level() -> Level:
    """The highest level of this machine; NONE where nothing is built."""
    try:
        return Level(load_library().tf_best_level())
    except NativeUnavailable:
        return Level.NONE


def peak_flops(threads: int) -> float:
    """Operations a second of the best level's bf16 tile products, everything in a core's cache."""
    peak: float = load_library().tf_peak_flops(best_level(), threads)
    return peak


def check_shape(config: ModelConfig) -> None:
    """Raises NativeUnavailable for a model whose sizes the kernels do not take."""
    for why, fits in (
        ("head_dim must be a multiple of 32", config.head_dim % 32 == 0),
        ("head_dim must be at most 256", config.head_dim <= 256),
        ("at most 16 query heads may share a kv head", config.heads // config.kv_heads <= 16),
        ("hidden must be a multiple of 4", config.hidden % 4 == 0),
        ("intermediate must be a multiple of 4", config.intermediate % 4 == 0),
    ):
        if not fits:
            raise NativeUnavailable(f"the native kernels cannot run this model: {why}")


class Kernels:
    """One model in memory, and after `bind` one pool."""

    def __init__(self, packed: PackedModel, frequencies: Float32Array) -> None:
        """Copies the matrices; keeps the vectors."""
        self._handle: int | None = None
        config = packed.config
        check_shape(config)
        self._library = load_library()
        self._vectors = {name: np.ascontiguousarray(v) for name, v in packed.vectors.items()}
        self._vectors["frequencies"] = np.ascontiguousarray(frequencies)
        shape = _Shape(
            config.hidden,
            config.layers,
            config.heads,
            config.kv_heads,
            config.head_dim,
            config.intermediate,
            config.vocab,
            config.rms_norm_eps,
        )
        matrices = [
            self._matrix(f"layers.{i}.{part}", packed.matrices[f"layers.{i}.{part}"])
            for i in range(config.layers)
            for part in ("qkv", "output", "gate_up", "down")
        ]
        embedding = packed.matrices.get("embedding", packed.matrices["head"])
        matrices += [
            self._matrix("head", packed.matrices["head"]),
            self._matrix("embedding", embedding),
        ]
        vectors = [
            self._vector(f"layers.{i}.{part}")
            for i in range(config.layers)
            for part in ("input_norm", "post_norm", "q_norm", "k_norm")
        ]
        vectors += [self._vector("norm"), self._vector("frequencies")]
        self._handle = self._library.tf_open(
            byref(shape), (_Matrix * len(matrices))(*matrices), (c_void_p * len(vectors))(*vectors)
        )
        if not self._handle:
            raise MemoryError("there is no memory for the model's weights")
        self._vocab = config.vocab

    def _vector(self, name: str) -> int | None:
        vector = self._vectors.get(name)
        return None if vector is None else vector.ctypes.data

    def _matrix(self, name: str, matrix: PackedMatrix) -> _Matrix:
        bias = self._vector(f"{name}.bias")
        return _Matrix(matrix.kind, matrix.rows, matrix.cols, matrix.tiles.ctypes.data, bias)

    def bind(
        self,
        memory: memoryview,
        slots: int,
        slot_bytes: int,
        block_tokens: int,
        threads: int,
        level: Level,
    ) -> None:
        """Keeps `memory` exported. Keys and values go there; see native/model.h for their order."""
        self._memory = (c_uint8 * (slots * slot_bytes)).from_buffer(memory)
        pool = _Pool(ctypes.addressof(self._memory), slot_bytes, slots, block_tokens)
        if self._library.tf_bind(self._handle, byref(pool), level, threads):
            raise NativeUnavailable(f"this machine has no {level.name}, or too little memory")

    def step(self, batch: RaggedBatch, logits: Sequence[Float32Array | None]) -> Int32Array:
        """The best id of each wanted row; its logits [vocab] too where `logits` has an array."""
        best = np.zeros(len(batch.wanted), dtype=np.int32)
        rows = (c_void_p * max(1, len(logits)))(
            *(None if row is None else row.ctypes.data for row in logits)
        )
        call = _Batch(
            batch.tokens.ctypes.data,
            batch.positions.ctypes.data,
            batch.starts.ctypes.data,
            batch.tables.ctypes.data,
            batch.table_starts.ctypes.data,
            batch.wanted.ctypes.data,
            ctypes.addressof(rows),
            best.ctypes.data,
            len(batch.starts) - 1,
            len(batch.wanted),
        )
        if self._library.tf_step(self._handle, byref(call)):
            raise MemoryError("there is no memory for a step")
        return best

    def draw(self, logits: Float32Array, params: ctypes.Structure) -> int:
        """One token of a row [vocab]; `params` has the fields of native/draw_params.h."""
        token: int = self._library.tf_draw(self._handle, logits.ctypes.data, byref(params))
        if token < 0:
            raise MemoryError("there is no memory for drawing a token")
        return token

    def seconds(self) -> dict[str, float]:
        """What the first thread spent in each phase since `bind`."""
        spent = self._library.tf_seconds(self._handle)
        return {phase: spent[index] for index, phase in enumerate(PHASES)}

    def close(self) -> None:
        if self._handle:
            self._library.tf_close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()
