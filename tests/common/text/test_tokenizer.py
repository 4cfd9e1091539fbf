import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from common.checkpoint.errors import CheckpointError
from common.checkpoint.prepared_tokenizer import prepare_tokenizer
from common.checkpoint.tokenizer_source import SpecialTokens, TokenizerSource
from common.domain.errors import InvalidRequest
from common.text.tokenizer import Tokenizer
from tests.support.default_model import default_model
from tests.support.tiny_tokenizer import VOCAB, byte_level_tokenizer, tiny_source


def test_digits_are_tokens_of_their_own(byte_level: Tokenizer) -> None:
    ids = byte_level.encode("1234", add_special=False)
    assert [byte_level.token_bytes(token) for token in ids] == [b"1", b"2", b"3", b"4"]


def test_special_tokens_in_a_text_become_their_ids(byte_level: Tokenizer) -> None:
    ids = byte_level.encode("<|im_start|>user\nba<|im_end|>", add_special=False)
    assert (ids[0], ids[-1]) == (1, 2)
    assert byte_level.decode(ids, skip_special=True) == "user\nba"
    assert byte_level.decode(ids, skip_special=False) == "<|im_start|>user\nba<|im_end|>"


def test_what_a_model_expects_around_a_text_is_added_on_request() -> None:
    source = json.loads(tiny_source(7).tokenizer_json)
    source["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<|im_start|>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            "<|im_start|>": {"id": "<|im_start|>", "ids": [1], "tokens": ["<|im_start|>"]}
        },
    }
    tokenizer = Tokenizer(TokenizerSource(json.dumps(source), None, SpecialTokens()), ())
    plain = tokenizer.encode("ba", add_special=False)
    assert tokenizer.encode("ba", add_special=True) == [1, *plain]


def test_truncation_and_padding_of_the_file_are_off() -> None:
    tokenizer = byte_level_tokenizer(7)
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=64)
    built = Tokenizer(TokenizerSource(tokenizer.to_str(), None, SpecialTokens()), ())
    assert built.encode("ba" * 20, add_special=False) == Tokenizer(tiny_source(7), ()).encode(
        "ba" * 20, add_special=False
    )


@given(text=st.text())
def test_token_bytes_joined_are_the_bytes_of_the_text(byte_level: Tokenizer, text: str) -> None:
    ids = byte_level.encode(text, add_special=False)
    assert b"".join(map(byte_level.token_bytes, ids)) == text.encode()
    assert byte_level.decode(ids, skip_special=False) == text


@given(ids=st.lists(st.integers(0, VOCAB - 1), max_size=30))
def test_any_ids_decode_to_their_bytes(byte_level: Tokenizer, ids: list[int]) -> None:
    joined = b"".join(map(byte_level.token_bytes, ids))
    assert byte_level.decode(ids, skip_special=False) == joined.decode(errors="replace")


def test_an_added_token_outside_the_byte_alphabet_stands_for_itself() -> None:
    tokenizer = byte_level_tokenizer(7)
    tokenizer.add_special_tokens(["<|한|>"])
    built = Tokenizer(TokenizerSource(tokenizer.to_str(), None, SpecialTokens()), ())
    assert built.token_bytes(VOCAB) == "<|한|>".encode()
    assert built.decode([VOCAB], skip_special=False) == "<|한|>"
    assert built.vocab == VOCAB + 1


def test_every_byte_has_a_token(byte_level: Tokenizer, byte_fallback: Tokenizer) -> None:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    for tokenizer in (byte_level, byte_fallback):
        singles = {tokenizer.token_bytes(token) for token in range(tokenizer.vocab)}
        assert {bytes([byte]) for byte in range(256)} <= singles
    assert len(alphabet) == 256


def test_ids_beyond_the_vocabulary_are_empty(byte_level: Tokenizer) -> None:
    assert byte_level.vocab == VOCAB
    assert byte_level.token_bytes(VOCAB) == b""
    assert byte_level.decode([VOCAB + 5], skip_special=False) == ""


def test_word_starts_are_spaces_and_byte_tokens_are_bytes(byte_fallback: Tokenizer) -> None:
    ids = byte_fallback.encode("ba 😀", add_special=False)
    assert b"".join(map(byte_fallback.token_bytes, ids)) == " ba 😀".encode()


def test_a_lone_surrogate_is_the_clients_error(byte_level: Tokenizer) -> None:
    with pytest.raises(InvalidRequest, match="surrogate"):
        byte_level.encode("a\ud800b", add_special=False)


@pytest.mark.parametrize("text", ["", "{}", '{"model": {"type": "Unheard"}}'])
def test_a_tokenizer_that_cannot_be_read_is_a_checkpoint_error(text: str) -> None:
    with pytest.raises(CheckpointError, match="tokenizer cannot be read"):
        Tokenizer(TokenizerSource(text, None, SpecialTokens()), ())


def test_digest_and_end_ids_are_those_given() -> None:
    tokenizer = Tokenizer(tiny_source(7), (2, 0))
    assert tokenizer.eos_token_ids == (2, 0)
    assert tokenizer.digest == tiny_source(7).digest != tiny_source(8).digest
    assert tokenizer.special_ids == {0, 1, 2}


def test_ids_of_the_default_model_are_the_published_ones(tmp_path: Path) -> None:
    tokenizer = Tokenizer(prepare_tokenizer(default_model(), tmp_path), (2,))
    text = "<|im_start|>user\nHello 1234 world<|im_end|>\n"
    ids = tokenizer.encode(text, add_special=False)
    assert ids == [1, 4093, 198, 19556, 216, 33, 34, 35, 36, 905, 2, 198]
    assert tokenizer.decode(ids, skip_special=False) == text
    assert tokenizer.vocab == 49_152
    assert len(tokenizer.special_ids) == 17
