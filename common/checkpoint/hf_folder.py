"""A Hugging Face folder: config.json, safetensors (one file or shards), tokenizer.json, template.

Tensors are views of the mapped files where they are float32 already. Pickled weights
(`pytorch_model.bin`) are never opened.
"""

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from common.checkpoint.config import ModelConfig
from common.checkpoint.digest import Digests
from common.checkpoint.errors import CheckpointError, naming
from common.checkpoint.hf_config import hf_config
from common.checkpoint.metadata import Metadata
from common.checkpoint.safetensors_file import Float32Array, SafetensorsFile
from common.checkpoint.stored import Bf16, StoredTensor, round_bfloat16
from common.checkpoint.tensor_shapes import check_shapes, tensor_shapes
from common.checkpoint.tokenizer_source import SpecialTokens, TokenizerSource

_CONFIG, _GENERATION = "config.json", "generation_config.json"
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"


class HfFolder:
    def __init__(self, folder: Path, digests: Digests) -> None:
        self._folder = folder
        self._digests = digests
        generation = folder / _GENERATION
        with naming(folder / _CONFIG):
            self.config: ModelConfig = hf_config(
                read_object(folder / _CONFIG),
                read_object(generation) if generation.exists() else Metadata({}),
            )

    def tensor_names(self) -> Sequence[str]:
        return list(tensor_shapes(self.config))

    def tensor(self, name: str) -> Float32Array:
        return self._holders[name].tensor(name)

    def stored(self, name: str) -> StoredTensor:
        file = self._holders[name]
        entry = file.entries[name]
        if entry.dtype == "BF16":
            return Bf16(np.frombuffer(file.raw(name), dtype="<u2").reshape(entry.shape))
        return Bf16(round_bfloat16(file.tensor(name)))

    def is_float32(self) -> bool:
        """Whether every tensor can be used where it lies."""
        return all(self._holders[n].entries[n].dtype == "F32" for n in self.tensor_names())

    def tokenizer_json(self) -> str:
        return self._tokenizer.tokenizer_json

    def chat_template(self) -> str | None:
        return self._tokenizer.chat_template

    @property
    def special_tokens(self) -> SpecialTokens:
        return self._tokenizer.special_tokens

    def tokenizer_digest(self) -> str:
        return self._tokenizer.digest

    def digest(self) -> str:
        described = [self._folder / name for name in (_CONFIG, _GENERATION)]
        return self._digests.of_files(
            [*(path for path in described if path.exists()), *self._weight_files]
        )

    @cached_property
    def _weight_files(self) -> list[Path]:
        index = self._folder / _INDEX
        if not index.exists():
            return [_present(self._folder / _WEIGHTS)]
        with naming(index):
            shards = set(map(str, read_object(index).section("weight_map").values.values()))
            if any(Path(shard).name != shard for shard in shards):
                raise CheckpointError("key 'weight_map' names a file outside the folder")
        return [_present(self._folder / shard) for shard in sorted(shards)]

    @cached_property
    def _holders(self) -> dict[str, SafetensorsFile]:
        """Tensor name -> the file that holds it, checked against the config."""
        holders: dict[str, SafetensorsFile] = {}
        for path in self._weight_files:
            file = SafetensorsFile(path)
            holders |= dict.fromkeys(file.entries, file)
        with naming(self._folder):
            check_shapes(self.config, {n: f.entries[n].shape for n, f in holders.items()})
        return holders

    @cached_property
    def _tokenizer(self) -> TokenizerSource:
        return read_tokenizer(self._folder)


def read_tokenizer(folder: Path) -> TokenizerSource:
    path = folder / "tokenizer_config.json"
    settings = read_object(path) if path.exists() else Metadata({})
    with naming(path):
        return TokenizerSource(
            tokenizer_json=_present(folder / "tokenizer.json").read_text(encoding="utf-8"),
            chat_template=_chat_template(folder, settings),
            special_tokens=SpecialTokens(
                bos=_token(settings, "bos_token"),
                eos=_token(settings, "eos_token"),
                pad=_token(settings, "pad_token"),
                unk=_token(settings, "unk_token"),
            ),
        )


def read_object(path: Path) -> Metadata:
    try:
        value = json.loads(_present(path).read_bytes())
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} is not a JSON object")
    return Metadata(value)


def _present(path: Path) -> Path:
    if not path.exists():
        raise CheckpointError(f"{path} does not exist")
    return path


def _chat_template(folder: Path, settings: Metadata) -> str | None:
    """A file of its own wins; older folders keep one template, or a list of named ones, inside."""
    path = folder / "chat_template.jinja"
    if path.exists():
        return path.read_text(encoding="utf-8")
    named = settings.values.get("chat_template")
    if not isinstance(named, list):
        return settings.optional_text("chat_template")
    templates = [Metadata(item) for item in named if isinstance(item, dict)]
    return next((t.text("template") for t in templates if t.text("name") == "default"), None)


def _token(settings: Metadata, key: str) -> str | None:
    """A token is a string, or an object that describes one."""
    if isinstance(settings.values.get(key), dict):
        return settings.section(key).text("content")
    return settings.optional_text(key)
