"""One face for every model file: what it computes, its tensors, its tokenizer, what it is.

Whoever needs a model asks `open_checkpoint` and never looks at the format again. Tensors carry
their Hugging Face names and row order whatever the file calls them, so the engine has one set.
Digests are over the contents, never over paths: two hosts with the same file agree.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from common.checkpoint.config import ModelConfig
from common.checkpoint.digest import Digests
from common.checkpoint.errors import CheckpointError
from common.checkpoint.gguf_file import GgufFile
from common.checkpoint.hf_folder import HfFolder
from common.checkpoint.safetensors_file import Float32Array
from common.checkpoint.stored import StoredTensor
from common.checkpoint.tokenizer_source import SpecialTokens

_GGUF_MAGIC = b"GGUF"


class Checkpoint(Protocol):
    config: ModelConfig

    @property
    def special_tokens(self) -> SpecialTokens: ...

    def tensor_names(self) -> Sequence[str]:
        """Hugging Face names, for example `model.layers.0.self_attn.q_proj.weight`."""

    def tensor(self, name: str) -> Float32Array:
        """[out, in] for a matrix. Read-only where the file could be mapped."""

    def stored(self, name: str) -> StoredTensor:
        """The matrix `name` as the file holds it, or bfloat16 where no kernel could read that."""

    def tokenizer_json(self) -> str:
        """Source text that `tokenizers.Tokenizer.from_str` understands."""

    def chat_template(self) -> str | None:
        """Jinja source, or None: the model has no chat format."""

    def digest(self) -> str:
        """SHA-256 hex over the bytes that make the model: weights and configuration."""

    def tokenizer_digest(self) -> str:
        """SHA-256 hex over tokenizer and chat template: equal ids for equal messages."""


def open_checkpoint(path: Path, cache: Path | None = None) -> Checkpoint:
    """A GGUF file or a Hugging Face folder. `cache` is where digests are remembered."""
    if path.is_dir():
        return HfFolder(path, Digests(cache))
    if not path.exists():
        raise CheckpointError(f"{path} does not exist")
    with path.open("rb") as file:
        magic = file.read(len(_GGUF_MAGIC))
    if magic != _GGUF_MAGIC:
        raise CheckpointError(f"{path} is neither a GGUF file nor a Hugging Face folder")
    return GgufFile(path, Digests(cache))


def checkpoint_digest(path: Path, cache: Path) -> str:
    """What `open_checkpoint(path).digest()` gives, without unpacking a GGUF file for it."""
    if path.is_dir():
        return HfFolder(path, Digests(cache)).digest()
    if not path.exists():
        raise CheckpointError(f"{path} does not exist")
    return Digests(cache).of_file(path)
