"""Finds the first stop string in a stream of text that comes in pieces of any size.

One automaton a stop string (Knuth, Morris, Pratt) is fed character by character, so the result
cannot depend on where the pieces end, and what is held back is exactly what could still be the
beginning of a stop string. The first match to be complete wins; of those complete at the same
character, the longest.
"""

from collections.abc import Sequence

from common.domain.errors import InvalidRequest


class StopMatcher:
    def __init__(self, stops: Sequence[str], *, include_stop: bool = False) -> None:
        """`include_stop`: the text ends after the stop string instead of before it."""
        if not all(stops):
            raise InvalidRequest("a stop string must not be empty", param="stop")
        self._automata = [_Automaton(stop) for stop in stops]
        self._include_stop = include_stop
        self._held = ""
        self._matched: str | None = None

    def push(self, text: str) -> tuple[str, str | None]:
        """(text to send now, the stop string that ended it). Nothing comes after a match."""
        if self._matched is not None:
            return "", self._matched
        seen = self._held + text
        for index, character in enumerate(text, start=len(self._held)):
            complete = [a.word for a in self._automata if a.advance(character)]
            if complete:
                return self._cut(seen[: index + 1], max(complete, key=len))
        keep = len(seen) - max((a.length for a in self._automata), default=0)
        self._held = seen[keep:]
        return seen[:keep], None

    def flush(self) -> str:
        """The stream has ended: what was held back is text after all."""
        held, self._held = self._held, ""
        return held

    def _cut(self, seen: str, stop: str) -> tuple[str, str]:
        self._held, self._matched = "", stop
        return (seen if self._include_stop else seen[: -len(stop)]), stop


class _Automaton:
    """`length` characters of `word` are the end of what was read, and no longer beginning is."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.length = 0
        self._borders = _borders(word)

    def advance(self, character: str) -> bool:
        """True when the word is complete; no more may be read then."""
        while self.length and self.word[self.length] != character:
            self.length = self._borders[self.length - 1]
        if self.word[self.length] == character:
            self.length += 1
        return self.length == len(self.word)


def _borders(word: str) -> list[int]:
    """For each prefix, the length of its longest proper prefix that is also its suffix."""
    borders = [0]
    for character in word[1:]:
        length = borders[-1]
        while length and word[length] != character:
            length = borders[length - 1]
        borders.append(length + 1 if word[length] == character else 0)
    return borders
