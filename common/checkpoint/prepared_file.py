"""A converted model on disk: a safetensors file whose metadata is the config and a checksum.

The header follows from the config alone, so a file is whole when its header is the one we would
write and the checksum (crc32c) over header and tensors fits; the checksum's own digits count as
zeros. A file that was cut short, or has a flipped bit anywhere, is found in one pass over it. The
header is padded so that tensors start on a cache line.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from crc32c import crc32c

from common.checkpoint.atomic_file import atomic_file
from common.checkpoint.config import ModelConfig
from common.checkpoint.config_json import config_from_json, config_to_json
from common.checkpoint.errors import CheckpointError
from common.checkpoint.safetensors_file import Float32Array, SafetensorsFile
from common.checkpoint.tensor_shapes import tensor_shapes

_ALIGNMENT = 64
_LENGTH_BYTES = 8
_NO_CRC = "0" * 8


def write_prepared(path: Path, config: ModelConfig, tensor: Callable[[str], Float32Array]) -> None:
    """Holds one tensor in memory at a time; the file appears when it is whole."""
    header = _header(config, _NO_CRC)
    crc = crc32c(header)
    with atomic_file(path) as file:
        file.write(header)
        for name in tensor_shapes(config):
            values = np.ascontiguousarray(tensor(name), dtype="<f4").data
            crc = crc32c(values, crc)
            file.write(values)
        file.seek(0)
        file.write(_header(config, f"{crc:08x}"))


def read_prepared(path: Path) -> tuple[ModelConfig, SafetensorsFile] | None:
    """None when there is no such file, or not a whole one of this version."""
    if not path.exists():
        return None
    try:
        file = SafetensorsFile(path)
        config = config_from_json(file.metadata.get("config", ""))
    except CheckpointError:
        return None
    crc = file.metadata.get("crc32c", "")
    header = _header(config, crc)
    stored = np.memmap(path, dtype=np.uint8, mode="r")
    if bytes(stored[: len(header)]) != header:
        return None
    actual = crc32c(stored[len(header) :].data, crc32c(_header(config, _NO_CRC)))
    return (config, file) if f"{actual:08x}" == crc else None


def _header(config: ModelConfig, crc: str) -> bytes:
    entries: dict[str, object] = {"__metadata__": {"config": config_to_json(config), "crc32c": crc}}
    offset = 0
    for name, shape in tensor_shapes(config).items():
        end = offset + 4 * math.prod(shape)
        entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": (offset, end)}
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    padded = text + b" " * (-(_LENGTH_BYTES + len(text)) % _ALIGNMENT)
    return len(padded).to_bytes(_LENGTH_BYTES, "little") + padded
