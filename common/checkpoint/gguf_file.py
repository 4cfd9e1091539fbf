"""A GGUF file as a checkpoint: dequantised, renamed, in the row order the engine's rope expects.

llama.cpp rotates neighbouring pairs of dimensions where the Hugging Face `llama` rotates the two
halves of a head, so files of that architecture hold q and k with their rows interleaved; they are
put back here. Architectures that llama.cpp itself rotates by halves (qwen3) are stored as they are.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFValueType, ReaderTensor

from common.checkpoint.config import ModelConfig
from common.checkpoint.digest import Digests
from common.checkpoint.errors import CheckpointError, naming
from common.checkpoint.gguf_blocks import gguf_float32, gguf_shape, gguf_stored
from common.checkpoint.gguf_config import gguf_config
from common.checkpoint.gguf_tokenizer import gguf_tokenizer
from common.checkpoint.metadata import Metadata
from common.checkpoint.safetensors_file import Float32Array
from common.checkpoint.stored import Array, StoredTensor, move_rows
from common.checkpoint.tensor_shapes import check_shapes, tensor_shapes
from common.checkpoint.tokenizer_source import SpecialTokens, TokenizerSource

_WHOLE_MODEL = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_OF_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER_TENSOR = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_DIVISORS = "rope_freqs.weight"


class GgufFile:
    def __init__(self, path: Path, digests: Digests) -> None:
        self._path = path
        self._digests = digests
        with naming(path):
            self._reader = _open(path)
            stored = {tensor.name: tensor for tensor in self._reader.tensors}
            self.config: ModelConfig = gguf_config(
                self._metadata(tokenizer=False), stored, *_facts(stored)
            )
            self._tensors = {
                hf_name(name): tensor for name, tensor in stored.items() if name != _DIVISORS
            }
            check_shapes(self.config, {name: gguf_shape(t) for name, t in self._tensors.items()})
            if ignored := self._tensors.keys() - tensor_shapes(self.config).keys():
                raise CheckpointError(f"tensor {min(ignored)} is more than {self.config.arch} uses")

    def tensor_names(self) -> Sequence[str]:
        return list(tensor_shapes(self.config))

    def tensor(self, name: str) -> Float32Array:
        with naming(self._path):
            values = gguf_float32(self._tensors[name])
        heads = self._interleaved_heads(name)
        return values if heads is None else split_halves(values, heads)

    def stored(self, name: str) -> StoredTensor:
        with naming(self._path):
            stored = gguf_stored(self._tensors[name])
        heads = self._interleaved_heads(name)
        return stored if heads is None else move_rows(stored, lambda a: split_halves(a, heads))

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
        return self._digests.of_file(self._path)

    def _interleaved_heads(self, name: str) -> int | None:
        """How many heads have their rows to be put back; None: the tensor is as we want it."""
        if self.config.arch != "llama":
            return None
        if ".q_proj." in name:
            return self.config.heads
        return self.config.kv_heads if ".k_proj." in name else None

    @cached_property
    def _tokenizer(self) -> TokenizerSource:
        with naming(self._path):
            return gguf_tokenizer(self._metadata(tokenizer=True))

    def _metadata(self, *, tokenizer: bool) -> Metadata:
        """Token lists are long: they are unpacked only for who asks."""
        fields = self._reader.fields.items()
        return Metadata(
            {
                name: field.contents()
                for name, field in fields
                if tokenizer
                or field.types[0] != GGUFValueType.ARRAY
                or not name.startswith("tokenizer.")
            }
        )


def hf_name(name: str) -> str:
    """GGUF's name of a tensor -> Hugging Face's."""
    if name in _WHOLE_MODEL:
        return _WHOLE_MODEL[name]
    match = _LAYER_TENSOR.fullmatch(name)
    if match is None or match[2] not in _OF_LAYER:
        raise CheckpointError(f"tensor {name} is not known: this model computes more than we do")
    return f"model.layers.{match[1]}.{_OF_LAYER[match[2]]}.{match[3]}"


def split_halves(rows: Array, heads: int) -> Array:
    """[heads * dim, ...] with each head's rows 0, d/2, 1, d/2 + 1, ... -> 0, 1, ..., d - 1."""
    pairs = rows.reshape(heads, len(rows) // heads // 2, 2, *rows.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)


def _open(path: Path) -> GGUFReader:
    try:
        return GGUFReader(path)
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        raise CheckpointError(f"not a GGUF file we can read, or cut short: {error}") from error


def _facts(stored: dict[str, ReaderTensor]) -> tuple[int, tuple[float, ...] | None]:
    """Vocabulary size and rope divisors, which stand in no key."""
    if "token_embd.weight" not in stored:
        raise CheckpointError("tensor token_embd.weight is missing")
    vocab = gguf_shape(stored["token_embd.weight"])[0]
    if _DIVISORS not in stored:
        return vocab, None
    return vocab, tuple(float(value) for value in gguf_float32(stored[_DIVISORS]))
