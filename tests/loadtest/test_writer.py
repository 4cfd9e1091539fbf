from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.writer import WORDS, ExactWriter, WordWriter


def words(text: str) -> int:
    return len(text.split())


def long_words_are_two(text: str) -> int:
    """Of more than four letters."""
    return sum(1 + (len(word) > 4) for word in text.split())


def pieces_of_three(text: str) -> int:
    return sum(-(-len(word) // 3) for word in text.split())


def pairs(text: str) -> int:
    """Two words a token, as where a vocabulary has phrases."""
    return -(-len(text.split()) // 2)


def neighbours_merge(text: str) -> int:
    """Not rising with every word: a short word and the next may become one."""
    split = text.split()
    merged = sum(len(word) == 2 and len(after) == 3 for word, after in pairwise(split))
    return len(split) - merged


def always_two(text: str) -> int:
    return 2 * words(text)


COUNTS = [words, long_words_are_two, pieces_of_three, pairs, neighbours_merge]


def test_the_words_differ_and_are_lower_case() -> None:
    assert len(set(WORDS)) == len(WORDS) > 100
    assert all(word.isalpha() and word.islower() for word in WORDS)


@given(tokens=st.integers(0, 300), seed=st.integers())
def test_without_a_tokenizer_a_word_is_a_token(tokens: int, seed: int) -> None:
    text = WordWriter().write(tokens, Random(seed))
    assert words(text) == tokens
    assert text == "".join(f" {word}" for word in text.split())


@pytest.mark.parametrize("count", COUNTS)
@settings(max_examples=60, deadline=None)
@given(tokens=st.integers(0, 200), seed=st.integers())
def test_with_one_the_count_is_exact(count: Callable[[str], int], tokens: int, seed: int) -> None:
    text = ExactWriter(count).write(tokens, Random(seed))
    assert count(text) == tokens
    assert set(text.split()) <= set(WORDS)
    assert not text or text.startswith(" ")


@pytest.mark.parametrize("tokens", range(1, 12))
def test_where_no_word_is_one_token_it_comes_as_near_as_it_can(tokens: int) -> None:
    text = ExactWriter(always_two).write(tokens, Random(0))
    assert always_two(text) == tokens - tokens % 2


def test_what_does_not_count_words_is_no_tokenizer() -> None:
    with pytest.raises(ValueError, match="no tokenizer"):
        ExactWriter(lambda text: 0).write(5, Random(0))


def test_the_text_is_counted_a_few_times_only() -> None:
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += 1
        return long_words_are_two(text)

    assert long_words_are_two(ExactWriter(count).write(4000, Random(0))) == 4000
    assert counted < 40


@pytest.mark.parametrize("writer", [WordWriter(), ExactWriter(long_words_are_two)])
def test_equal_chance_writes_equal_text(writer: WordWriter | ExactWriter) -> None:
    assert writer.write(50, Random(4)) == writer.write(50, Random(4))
    assert writer.write(50, Random(4)) != writer.write(50, Random(5))
