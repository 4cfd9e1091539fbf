"""GGUF files made from the Hugging Face folders of tiny_models, the way llama.cpp converts them."""

import json
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFWriter
from safetensors.numpy import load_file

from tests.support.gguf_blocks import NEVER_WRITTEN, random_blocks

Array = npt.NDArray[np.float32]
Extra = Callable[[GGUFWriter], None]

_NAMES = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}


def tiny_gguf(
    folder: Path,
    path: Path,
    quantization: GGMLQuantizationType = GGMLQuantizationType.F32,
    *,
    pre: str = "smollm",
    extra: Extra = lambda writer: None,
) -> Path:
    """Matrices in `quantization`, norms in float32; `extra` adds or overrides keys and tensors.

    Matrices of a kind that gguf reads and cannot write are random blocks.
    """
    config = json.loads((folder / "config.json").read_text())
    writer = GGUFWriter(path, config["model_type"])
    _write_config(writer, config)
    _write_tokenizer(writer, folder, pre)
    extra(writer)
    for name, values in load_file(folder / "model.safetensors").items():
        if config["model_type"] == "llama":
            values = _interleaved(name, values, config)
        kind = quantization if values.ndim == 2 else GGMLQuantizationType.F32
        if kind in NEVER_WRITTEN:
            stored = random_blocks(kind, values.shape, np.random.default_rng(len(name)))
        else:
            stored = gguf.quants.quantize(values, kind)
        writer.add_tensor(gguf_name(name), stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gguf_name(name: str) -> str:
    parts = name.split(".")
    short = _NAMES[parts[-2]]
    return f"blk.{parts[2]}.{short}.{parts[-1]}" if "layers" in parts else f"{short}.{parts[-1]}"


def _interleaved(name: str, values: Array, config: dict[str, int]) -> Array:
    """Row i of the first half of a head, then row i of the second half."""
    heads = {
        "q_proj": config["num_attention_heads"],
        "k_proj": config["num_key_value_heads"],
    }.get(name.split(".")[-2])
    if heads is None:
        return values
    halves = values.reshape(heads, 2, len(values) // heads // 2, -1)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)


def _write_config(writer: GGUFWriter, config: dict[str, int]) -> None:
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(10_000.0)


def _write_tokenizer(writer: GGUFWriter, folder: Path, pre: str) -> None:
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token.startswith("<|") else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_chat_template((folder / "chat_template.jinja").read_text())
