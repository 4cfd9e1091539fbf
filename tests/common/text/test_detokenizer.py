from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.text.detokenizer import Detokenizer
from common.text.tokenizer import Tokenizer
from tests.support.tiny_tokenizer import VOCAB

CHARACTERS = "ab é한😀\n\u0301\u200d👩👧"


def chunked(tokenizer: Tokenizer, ids: list[int], cuts: list[int], *, skip: bool) -> list[str]:
    """The chunks of pushing `ids` in pieces that end at `cuts`, and of finishing."""
    stream = Detokenizer(tokenizer, skip_special=skip)
    edges = [0, *sorted(cut % (len(ids) + 1) for cut in cuts), len(ids)]
    return [*(stream.push(ids[a:b]) for a, b in pairwise(edges)), stream.finish()]


def one_byte_each(tokenizer: Tokenizer, text: str) -> list[int]:
    token = {tokenizer.token_bytes(i): i for i in reversed(range(tokenizer.vocab))}
    return [token[bytes([byte])] for byte in text.encode()]


@given(text=st.text(), cuts=st.lists(st.integers(0, 1000)))
def test_chunks_join_to_the_text(byte_level: Tokenizer, text: str, cuts: list[int]) -> None:
    ids = byte_level.encode(text, add_special=False)
    assert "".join(chunked(byte_level, ids, cuts, skip=False)) == text


@given(
    ids=st.lists(st.integers(0, VOCAB + 3), max_size=40),
    cuts=st.lists(st.integers(0, 1000)),
    skip=st.booleans(),
)
def test_any_ids_join_to_what_decode_gives(
    byte_level: Tokenizer, ids: list[int], cuts: list[int], skip: bool
) -> None:
    expected = byte_level.decode(ids, skip_special=skip)
    assert "".join(chunked(byte_level, ids, cuts, skip=skip)) == expected


@pytest.mark.parametrize("family", ["byte_level", "byte_fallback"])
def test_a_character_appears_with_its_last_byte(
    family: str, request: pytest.FixtureRequest
) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(family)
    for character in "aé한😀":
        stream = Detokenizer(tokenizer, skip_special=True)
        chunks = [stream.push([token]) for token in one_byte_each(tokenizer, character)]
        assert chunks == [*[""] * (len(character.encode()) - 1), character]
        assert stream.finish() == ""


@given(text=st.text(alphabet=CHARACTERS), cuts=st.lists(st.integers(0, 1000)))
def test_single_bytes_cut_anywhere_never_show_half_a_character(
    byte_level: Tokenizer, byte_fallback: Tokenizer, text: str, cuts: list[int]
) -> None:
    for tokenizer in (byte_level, byte_fallback):
        chunks = chunked(tokenizer, one_byte_each(tokenizer, text), cuts, skip=True)
        assert "\ufffd" not in "".join(chunks)
        assert "".join(chunks) == text


@pytest.mark.parametrize("family", ["byte_level", "byte_fallback"])
@pytest.mark.parametrize("kept", [1, 2, 3])
def test_a_cut_character_shows_once_and_only_at_the_end(
    family: str, kept: int, request: pytest.FixtureRequest
) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(family)
    stream = Detokenizer(tokenizer, skip_special=True)
    assert stream.push(one_byte_each(tokenizer, "a😀")[: 1 + kept]) == "a"
    assert stream.push([]) == ""
    assert stream.finish() == "\ufffd"
    assert stream.finish() == ""


@pytest.mark.parametrize("family", ["byte_level", "byte_fallback"])
def test_a_byte_that_no_other_can_save_shows_at_once(
    family: str, request: pytest.FixtureRequest
) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(family)
    token = {tokenizer.token_bytes(i): i for i in reversed(range(tokenizer.vocab))}
    stream = Detokenizer(tokenizer, skip_special=True)
    assert stream.push([token[b"\xff"]]) == "\ufffd"
    assert stream.push([token[b"\xf0"]]) == ""
    assert stream.push([token[b"a"]]) == "\ufffda"


def test_a_word_after_a_cut_character_ends_it(byte_fallback: Tokenizer) -> None:
    (word,) = byte_fallback.encode("ba", add_special=False)
    stream = Detokenizer(byte_fallback, skip_special=True)
    chunks = [stream.push([token]) for token in (*one_byte_each(byte_fallback, "é")[:1], word)]
    assert chunks == ["", "\ufffd ba"]


def test_special_tokens_are_skipped_only_on_request(byte_level: Tokenizer) -> None:
    ids = byte_level.encode("ba<|im_end|>de", add_special=False)
    assert "".join(chunked(byte_level, ids, [], skip=True)) == "bade"
    assert "".join(chunked(byte_level, ids, [], skip=False)) == "ba<|im_end|>de"


@given(
    text=st.text(alphabet="abdeki lomu.é한😀 ", max_size=60),
    cuts=st.lists(st.integers(0, 1000)),
)
def test_words_and_spaces_of_the_other_family_join_to_what_decode_gives(
    byte_fallback: Tokenizer, text: str, cuts: list[int]
) -> None:
    ids = byte_fallback.encode(text, add_special=False)
    expected = byte_fallback.decode(ids, skip_special=True)
    assert expected == text
    assert "".join(chunked(byte_fallback, ids, cuts, skip=True)) == expected
