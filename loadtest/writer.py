"""Text of a wanted number of tokens.

Real words, because drafters, tokenizers and servers treat noise unlike text. Without a tokenizer a
word counts as a token: the words are so common that nearly every vocabulary has each of them, with
the space before it, as one. With one the count is exact. What a prompt really cost, chat template
included, always comes from the server's usage.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

_TEXT = """
the of and to in is was for that it with as on be by at from this are or an have not they
which you were but we all can their has there been one if more when will would who so no out
up into do any your what said about other some time could these two may then such only new
after first also people made over than years where most like how our work being back many
before just those because between world through year used under very well state day still
long right part general high number fact water system each group house small great public
word place school power point line order large end early young against given home light food
plan report field money market paper level change city street table office river
"""
WORDS = tuple(_TEXT.split())
"""Common enough to be one token each, in English vocabularies."""
_SPACED = tuple(f" {word}" for word in WORDS)


class Writer(Protocol):
    def write(self, tokens: int, random: Random) -> str:
        """So many tokens of text, beginning with a space; empty for none."""


class WordWriter:
    """A word a token."""

    def write(self, tokens: int, random: Random) -> str:
        return "".join(random.choices(_SPACED, k=tokens))


class ExactWriter:
    """As many tokens as `count` finds in the text. Where no word is one token, it may be that no
    text is exact: then as near below as words come."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count

    def write(self, tokens: int, random: Random) -> str:
        words = random.choices(_SPACED, k=tokens)
        if self._tokens(words) < tokens:
            self._grow(words, tokens, random)
        fits = self._most_that_fit(words, tokens)
        text = "".join(words[:fits])
        return self._filled(text, tokens, random)

    def _tokens(self, words: Sequence[str]) -> int:
        return self._count("".join(words))

    def _grow(self, words: list[str], tokens: int, random: Random) -> None:
        """To at least `tokens`. A tokenizer may have tokens of several words."""
        had = self._tokens(words)
        while had < tokens:
            words += random.choices(_SPACED, k=len(words))
            have = self._tokens(words)
            if have <= had:
                raise ValueError("twice the text is not more tokens: that is no tokenizer")
            had = have

    def _most_that_fit(self, words: Sequence[str], tokens: int) -> int:
        if self._tokens(words) == tokens:
            return len(words)
        fits = (
            bisect_right(range(len(words) + 1), tokens, key=lambda n: self._tokens(words[:n])) - 1
        )
        # The search takes counts to rise with every word; a tokenizer may break that by a token.
        while self._tokens(words[:fits]) > tokens:
            fits -= 1
        return fits

    def _filled(self, text: str, tokens: int, random: Random) -> str:
        while self._count(text) < tokens:
            tried = random.sample(_SPACED, k=len(_SPACED))
            longer = (text + word for word in tried if self._count(text + word) <= tokens)
            fitting = next(longer, None)
            if fitting is None:
                break
            text = fitting
        return text
