"""A packed model on disk: tiles and vectors in a checked file.

The metadata holds the config and, for each matrix, its kind and size. Tiles come first: their sizes
are multiples of a cache line, so all of them start on one.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from common.checkpoint.checked_file import checked_file, read_checked
from common.checkpoint.checkpoint import Checkpoint
from common.checkpoint.config import ModelConfig
from common.checkpoint.config_json import config_from_json, config_to_json
from common.checkpoint.errors import CheckpointError
from common.checkpoint.safetensors_file import Float32Array, SafetensorsFile
from common.kernels.fused import fused_matrices, fused_vectors
from common.kernels.packed_matrix import Kind, PackedMatrix
from common.kernels.tiles import pack, pack_quads

_HEADER_BYTES = 16_384
_HEADER_BYTES_OF_TENSOR = 256
_MATRIX = "matrix "
"""Before the names of matrices in the metadata."""

Packed = tuple[ModelConfig, Mapping[str, PackedMatrix], Mapping[str, Float32Array]]


def write_packed(path: Path, checkpoint: Checkpoint, arithmetic: str) -> None:
    """Holds one matrix in memory at a time; the file appears when it is whole."""
    config = checkpoint.config
    matrices, vectors = fused_matrices(config), fused_vectors(config)
    tensors = len(matrices) + len(vectors)
    with checked_file(path, _HEADER_BYTES + _HEADER_BYTES_OF_TENSOR * tensors) as file:
        file.metadata["config"] = config_to_json(config)
        for name, fused in matrices.items():
            stored = fused.join_stored([checkpoint.stored(part) for part in fused.parts])
            matrix = pack_quads(stored) if arithmetic == "int8" else pack(stored)
            file.metadata[_MATRIX + name] = f"{matrix.kind:d} {matrix.rows} {matrix.cols}"
            file.add(name, matrix.tiles)
        for name, fused in vectors.items():
            values = fused.join([checkpoint.tensor(part) for part in fused.parts])
            file.add(name, np.asarray(values, dtype="<f4"))


def read_packed(path: Path) -> Packed | None:
    """None when there is no such file, or not a whole one. Arrays are views of mapped pages."""
    file = read_checked(path)
    if file is None:
        return None
    try:
        config = config_from_json(file.metadata.get("config", ""))
    except CheckpointError:
        return None
    matrices = {
        key.removeprefix(_MATRIX): _matrix(file, key.removeprefix(_MATRIX), size)
        for key, size in file.metadata.items()
        if key.startswith(_MATRIX)
    }
    vectors = {name: file.tensor(name) for name in fused_vectors(config)}
    return config, matrices, vectors


def _matrix(file: SafetensorsFile, name: str, size: str) -> PackedMatrix:
    kind, rows, cols = map(int, size.split())
    return PackedMatrix(Kind(kind), rows, cols, file.raw(name))
