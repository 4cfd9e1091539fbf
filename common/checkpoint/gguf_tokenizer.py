"""The tokenizer inside a GGUF file, rewritten as the JSON that `tokenizers` reads.

GGUF keeps tokens, merges and the *name* of a pre-tokenizer; each name stands for split rules that
the file does not hold. The rules here give the ids of the original Hugging Face tokenizers. A name
without rules is refused: a guess would give other ids, and a model that answers slightly worse.
"""

import json
from collections.abc import Sequence
from enum import IntEnum

from common.checkpoint.errors import CheckpointError
from common.checkpoint.metadata import Metadata
from common.checkpoint.tokenizer_source import SpecialTokens, TokenizerSource

Json = dict[str, object]

_PREFIX = "tokenizer.ggml."
_LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2_WORDS = _LLAMA3_WORDS.replace(r"\p{N}{1,3}", r"\p{N}")


class TokenType(IntEnum):
    """`tokenizer.ggml.token_type`"""

    CONTROL = 3
    USER_DEFINED = 4


def gguf_tokenizer(metadata: Metadata) -> TokenizerSource:
    if (model := metadata.text(_PREFIX + "model")) != "gpt2":
        raise CheckpointError(
            f"key '{_PREFIX}model' is {model!r}: only byte-level BPE ('gpt2') is read from GGUF; "
            "use the Hugging Face folder of this model"
        )
    tokens = metadata.texts(_PREFIX + "tokens")
    special = SpecialTokens(
        bos=_token(metadata, tokens, "bos_token_id"),
        eos=_token(metadata, tokens, "eos_token_id"),
        pad=_token(metadata, tokens, "padding_token_id"),
        unk=_token(metadata, tokens, "unknown_token_id"),
    )
    return TokenizerSource(
        tokenizer_json=json.dumps(_tokenizer_json(metadata, tokens, special), ensure_ascii=False),
        chat_template=metadata.optional_text("tokenizer.chat_template"),
        special_tokens=special,
    )


def _tokenizer_json(metadata: Metadata, tokens: Sequence[str], special: SpecialTokens) -> Json:
    pre = metadata.text(_PREFIX + "pre", "default")
    merges = [merge.split(" ", 1) for merge in metadata.texts(_PREFIX + "merges")]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(metadata, tokens),
        "normalizer": {"type": "NFC"} if pre == "qwen2" else None,
        "pre_tokenizer": _pre_tokenizer(pre),
        "post_processor": _post_processor(metadata, pre, special),
        "decoder": _byte_level(),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pre == "llama-bpe",
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": merges,
        },
    }


def _pre_tokenizer(pre: str) -> Json:
    match pre:
        case "gpt-2" | "default":
            return _byte_level(use_regex=True)
        case "smollm":
            digits: Json = {"type": "Digits", "individual_digits": True}
            return _sequence(digits, _byte_level(use_regex=True))
        case "llama-bpe" | "llama3":
            return _sequence(_split(_LLAMA3_WORDS), _byte_level())
        case "qwen2":
            return _sequence(_split(_QWEN2_WORDS), _byte_level())
        case _:
            raise CheckpointError(
                f"key '{_PREFIX}pre' is {pre!r}: its split rules are not known; "
                "use the Hugging Face folder of this model"
            )


def _sequence(*steps: Json) -> Json:
    return {"type": "Sequence", "pretokenizers": list(steps)}


def _split(regex: str) -> Json:
    return {
        "type": "Split",
        "pattern": {"Regex": regex},
        "behavior": "Isolated",
        "invert": False,
    }


def _byte_level(*, use_regex: bool = False) -> Json:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": use_regex,
    }


def _added_tokens(metadata: Metadata, tokens: Sequence[str]) -> list[Json]:
    types = metadata.integers(_PREFIX + "token_type")
    if len(types) != len(tokens):
        raise CheckpointError(f"{len(tokens)} tokens but {len(types)} entries of token_type")
    return [
        {
            "id": index,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == TokenType.CONTROL,
        }
        for index, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in (TokenType.CONTROL, TokenType.USER_DEFINED)
    ]


def _post_processor(metadata: Metadata, pre: str, special: SpecialTokens) -> Json | None:
    """Puts the beginning-of-sequence token first where the model was trained with it."""
    if not metadata.flag(_PREFIX + "add_bos_token", default=pre in ("llama-bpe", "llama3")):
        return None
    if special.bos is None:
        raise CheckpointError(f"key '{_PREFIX}bos_token_id' is missing, but the token is added")
    first: Json = {"SpecialToken": {"id": special.bos, "type_id": 0}}
    bos_id = metadata.integer(_PREFIX + "bos_token_id")
    return {
        "type": "TemplateProcessing",
        "single": [first, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [
            first,
            {"Sequence": {"id": "A", "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 1}},
        ],
        "special_tokens": {
            special.bos: {"id": special.bos, "ids": [bos_id], "tokens": [special.bos]}
        },
    }


def _token(metadata: Metadata, tokens: Sequence[str], key: str) -> str | None:
    index = metadata.optional_integer(_PREFIX + key)
    if index is None:
        return None
    if not 0 <= index < len(tokens):
        raise CheckpointError(f"key '{_PREFIX}{key}' is {index}: there are {len(tokens)} tokens")
    return tokens[index]
