"""A model ready for the native kernels: packed once a host, mapped by every worker.

The first process to ask packs under a file lock; the others wait for it and map the same pages. The
digest covers the checkpoint, the arithmetic and the layout of tiles, and names the file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from common.checkpoint.checkpoint import checkpoint_digest, open_checkpoint
from common.checkpoint.config import ModelConfig
from common.checkpoint.digest import weights_digest
from common.checkpoint.errors import CheckpointError
from common.checkpoint.made_once import made_once
from common.checkpoint.safetensors_file import Float32Array
from common.kernels.packed_file import read_packed, write_packed
from common.kernels.packed_matrix import PackedMatrix

ARITHMETICS = ("bf16", "int8")
_FORM = "packed 3"
"""Counts up with every change to what packing writes."""


@dataclass(frozen=True, slots=True)
class PackedModel:
    config: ModelConfig
    matrices: Mapping[str, PackedMatrix]
    """By the names of `fused_matrices`. With tied embeddings the head is the embedding too."""
    vectors: Mapping[str, Float32Array]
    """By the names of `fused_vectors`: norms as they are, biases with padding."""
    weights_digest: str
    """SHA-256 hex over the checkpoint, the arithmetic and the form of packing."""


def pack_model(path: Path, arithmetic: str, cache: Path) -> PackedModel:
    """`path` is a GGUF file or a Hugging Face folder, `arithmetic` one of ARITHMETICS."""
    if arithmetic not in ARITHMETICS:
        raise CheckpointError(f"arithmetic {arithmetic!r} is not known: {', '.join(ARITHMETICS)}")
    digest = weights_digest(_FORM, checkpoint_digest(path, cache), arithmetic)

    def make(place: Path) -> None:
        write_packed(place, open_checkpoint(path, cache), arithmetic)

    place = cache / "packed" / f"{digest}.safetensors"
    config, matrices, vectors = made_once(place, read_packed, make)
    return PackedModel(config, MappingProxyType(matrices), MappingProxyType(vectors), digest)
