"""Hugging Face checkpoints of a few hundred kilobytes with random weights, made by transformers.

Two to three layers of a real architecture and a real byte-level BPE tokenizer: the code under test
takes the same way as with a model of many gigabytes, and transformers itself is the reference.
"""

from pathlib import Path

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from tests.support.tiny_tokenizer import (
    CHAT_TEMPLATE,
    SPECIAL_TOKENS,
    VOCAB,
    byte_level_tokenizer,
)

CONTEXT_TOKENS = 4096


def tiny_llama(folder: Path, seed: int, **changes: object) -> Path:
    """Two layers, untied embeddings, float32; `changes` are to the config."""
    config = LlamaConfig(
        **{
            "num_hidden_layers": 2,
            "head_dim": 16,
            "tie_word_embeddings": False,
            **_dimensions(),
            **changes,
        }
    )
    torch.manual_seed(seed)
    return _save(LlamaForCausalLM(config), folder, seed)


def tiny_qwen3(folder: Path, seed: int, **changes: object) -> Path:
    """Three layers, head_dim that is not hidden / heads, tied embeddings, float32."""
    config = Qwen3Config(
        **{
            "num_hidden_layers": 3,
            "head_dim": 32,
            "tie_word_embeddings": True,
            **_dimensions(),
            **changes,
        }
    )
    torch.manual_seed(seed)
    return _save(Qwen3ForCausalLM(config), folder, seed)


def _dimensions() -> dict[str, object]:
    return {
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 128,
        "vocab_size": VOCAB,
        "max_position_embeddings": CONTEXT_TOKENS,
        "rms_norm_eps": 1e-5,
        "initializer_range": 0.2,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }


def _save(model: LlamaForCausalLM | Qwen3ForCausalLM, folder: Path, seed: int) -> Path:
    model.eval()
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
        if name.endswith(".bias"):
            torch.nn.init.uniform_(parameter, -0.5, 0.5)
    model.save_pretrained(folder)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_level_tokenizer(seed),
        pad_token=SPECIAL_TOKENS[0],
        bos_token=SPECIAL_TOKENS[1],
        eos_token=SPECIAL_TOKENS[2],
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder
