import json
from pathlib import Path
from random import Random

import pytest
import tokenizers

from common.checkpoint.checkpoint import open_checkpoint
from common.checkpoint.errors import CheckpointError
from common.checkpoint.gguf_tokenizer import gguf_tokenizer
from common.checkpoint.metadata import Metadata
from common.checkpoint.tokenizer_source import SpecialTokens
from tests.support.tiny_gguf import tiny_gguf

LETTERS = "abdeikmo \n\t019한é😀'!?<|"


def metadata(pre: object, **changes: object) -> Metadata:
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<s>", "</s>", *alphabet, "ab", "Ġab", "12", "kkk", "<think>"]
    types = [3, 3, *[1] * (len(tokens) - 3), 4]
    values: dict[str, object] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": ["a b", "Ġ ab", "1 2"],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
    }
    return Metadata(values | {f"tokenizer.ggml.{key}": value for key, value in changes.items()})


def tokens_of(text: str, pre: str, *, add_special: bool = False, **changes: object) -> list[str]:
    source = gguf_tokenizer(metadata(pre, **changes))
    tokenizer = tokenizers.Tokenizer.from_str(source.tokenizer_json)
    return tokenizer.encode(text, add_special_tokens=add_special).tokens


def test_ids_are_those_of_the_original_tokenizer(llama_folder: Path, tmp_path: Path) -> None:
    converted = open_checkpoint(tiny_gguf(llama_folder, tmp_path / "m.gguf"))
    ours = tokenizers.Tokenizer.from_str(converted.tokenizer_json())
    original = tokenizers.Tokenizer.from_file(str(llama_folder / "tokenizer.json"))
    random = Random(5)
    for _ in range(200):
        text = "".join(random.choices(LETTERS, k=40)) + "<|im_end|>\n"
        encoded = ours.encode(text)
        assert encoded.ids == original.encode(text).ids
        assert ours.decode(encoded.ids) == original.decode(encoded.ids)
    assert converted.chat_template() == open_checkpoint(llama_folder).chat_template()
    assert converted.special_tokens == SpecialTokens("<|im_start|>", "<|im_end|>", "<|endoftext|>")


@pytest.mark.parametrize(
    ("pre", "number"),
    [
        ("smollm", ["1", "2", "1", "2"]),
        ("qwen2", ["1", "2", "1", "2"]),
        ("llama-bpe", ["12", "1", "2"]),
        ("gpt-2", ["12", "12"]),
    ],
)
def test_each_kind_splits_numbers_its_own_way(pre: str, number: list[str]) -> None:
    assert tokens_of("1212", pre) == number


@pytest.mark.parametrize("pre", ["smollm", "qwen2", "llama-bpe", "gpt-2", "default"])
def test_a_word_keeps_its_space_and_no_prefix_is_added(pre: str) -> None:
    assert tokens_of("ab ab", pre) == ["ab", "Ġab"]


def test_llama_takes_a_whole_word_that_no_merge_builds() -> None:
    assert tokens_of("kkk", "llama-bpe") == ["kkk"]
    assert tokens_of("kkk", "qwen2") == ["k", "k", "k"]


def test_qwen2_composes_characters_first() -> None:
    assert tokens_of("e\u0301", "qwen2") == tokens_of("\u00e9", "smollm")
    assert tokens_of("e\u0301", "smollm")[0] == "e"


def test_control_and_user_tokens_are_cut_out_but_only_control_ones_are_special() -> None:
    assert tokens_of("ab<think></s>", "smollm") == ["ab", "<think>", "</s>"]
    added = json.loads(gguf_tokenizer(metadata("smollm")).tokenizer_json)["added_tokens"]
    assert {token["content"]: token["special"] for token in added} == {
        "<s>": True,
        "</s>": True,
        "<think>": False,
    }


def test_the_first_token_is_added_where_the_model_wants_it() -> None:
    assert tokens_of("ab", "smollm", add_special=True) == ["ab"]
    assert tokens_of("ab", "smollm", add_special=True, add_bos_token=True) == ["<s>", "ab"]
    assert tokens_of("ab", "llama-bpe", add_special=True) == ["<s>", "ab"]
    assert tokens_of("ab", "llama-bpe", add_special=True, add_bos_token=False) == ["ab"]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"model": "llama"}, r"tokenizer\.ggml\.model' is 'llama'"),
        ({"pre": "tekken"}, r"tokenizer\.ggml\.pre' is 'tekken'"),
        ({"token_type": [1]}, "token_type"),
        ({"eos_token_id": 10_000}, r"eos_token_id' is 10000"),
        ({"merges": None}, r"merges' is missing"),
        ({"bos_token_id": None, "add_bos_token": True}, "bos_token_id"),
    ],
)
def test_what_cannot_be_read_exactly_is_refused(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(CheckpointError, match=complaint):
        gguf_tokenizer(metadata(**{"pre": "smollm", **changes}))
