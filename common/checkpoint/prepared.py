"""Weights ready for the engine: converted once a host, mapped by every worker.

The first process to ask converts under a file lock; the others wait for it and map the same pages.
A folder that holds float32 already is mapped where it lies. The name of a cached file is the digest
of what it was made from and the arithmetic, so it can be stale only by being damaged, and then it
is made again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from common.checkpoint.checkpoint import Checkpoint, checkpoint_digest, open_checkpoint
from common.checkpoint.config import ModelConfig
from common.checkpoint.digest import Digests, weights_digest
from common.checkpoint.errors import CheckpointError
from common.checkpoint.hf_folder import HfFolder
from common.checkpoint.made_once import made_once
from common.checkpoint.prepared_file import read_prepared, write_prepared
from common.checkpoint.safetensors_file import Float32Array

ARITHMETICS = ("fp32",)


@dataclass(frozen=True, slots=True)
class Prepared:
    config: ModelConfig
    weights: Mapping[str, Float32Array]
    """Hugging Face name -> read-only view of mapped pages; [out, in] for a matrix."""
    weights_digest: str
    """SHA-256 hex over the checkpoint and the arithmetic."""


def prepare(path: Path, arithmetic: str, cache: Path) -> Prepared:
    """`path` is a GGUF file or a Hugging Face folder, `arithmetic` one of ARITHMETICS."""
    if arithmetic not in ARITHMETICS:
        raise CheckpointError(f"arithmetic {arithmetic!r} is not known: {', '.join(ARITHMETICS)}")
    digest = weights_digest("weights 1", checkpoint_digest(path, cache), arithmetic)
    if path.is_dir():
        folder = HfFolder(path, Digests(cache))
        if folder.is_float32():
            return _mapped(folder, digest)

    def convert(place: Path) -> None:
        checkpoint = open_checkpoint(path, cache)
        write_prepared(place, checkpoint.config, checkpoint.tensor)

    place = cache / "prepared" / f"{digest}.safetensors"
    config, file = made_once(place, read_prepared, convert)
    weights = {name: file.tensor(name) for name in file.entries}
    return Prepared(config, MappingProxyType(weights), digest)


def _mapped(folder: Checkpoint, digest: str) -> Prepared:
    weights = {name: folder.tensor(name) for name in folder.tensor_names()}
    return Prepared(folder.config, MappingProxyType(weights), digest)
