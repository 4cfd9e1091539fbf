"""A converted model on disk: its float32 tensors in a checked file, whose metadata is the config.

The tensors follow from the config alone: a file is of this version when it has just those.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from common.checkpoint.checked_file import checked_file, read_checked
from common.checkpoint.config import ModelConfig
from common.checkpoint.config_json import config_from_json, config_to_json
from common.checkpoint.errors import CheckpointError
from common.checkpoint.safetensors_file import Float32Array, SafetensorsFile
from common.checkpoint.tensor_shapes import tensor_shapes

_HEADER_BYTES = 16_384
_HEADER_BYTES_OF_TENSOR = 256


def write_prepared(path: Path, config: ModelConfig, tensor: Callable[[str], Float32Array]) -> None:
    """Holds one tensor in memory at a time; the file appears when it is whole."""
    names = tensor_shapes(config)
    with checked_file(path, _HEADER_BYTES + _HEADER_BYTES_OF_TENSOR * len(names)) as file:
        file.metadata["config"] = config_to_json(config)
        for name in names:
            file.add(name, np.asarray(tensor(name), dtype="<f4"))


def read_prepared(path: Path) -> tuple[ModelConfig, SafetensorsFile] | None:
    """None when there is no such file, or not a whole one of this version."""
    file = read_checked(path)
    if file is None:
        return None
    try:
        config = config_from_json(file.metadata.get("config", ""))
    except CheckpointError:
        return None
    shapes = {name: entry.shape for name, entry in file.entries.items()}
    return (config, file) if shapes == tensor_shapes(config) else None
