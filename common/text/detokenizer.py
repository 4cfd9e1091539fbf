"""Token ids of one stream to text, as it becomes complete.

A character may be spread over several tokens. What is returned is never taken back: a chunk ends
where a character ends. U+FFFD stands only for bytes that no later byte can make valid, or, at the
end, for a character that was cut. Over a whole stream of valid text the chunks are what `decode` of
all its ids gives.
"""

import codecs
from collections.abc import Iterable, Sequence

from common.text.tokenizer import Tokenizer

_CONTEXT_TOKENS = 4


class Detokenizer:
    def __init__(self, tokenizer: Tokenizer, *, skip_special: bool) -> None:
        self._tokenizer = tokenizer
        self._skipped = tokenizer.special_ids if skip_special else frozenset()
        self._bytes = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._context: list[int] = []

    def push(self, ids: Iterable[int]) -> str:
        wanted = [token for token in ids if token not in self._skipped]
        if self._tokenizer.byte_level:
            return self._bytes.decode(b"".join(map(self._tokenizer.token_bytes, wanted)))
        return "".join(map(self._next, wanted))

    def finish(self) -> str:
        """What is left: nothing, or one U+FFFD for a character that was cut."""
        return self._bytes.decode(b"", final=True)

    def _next(self, token: int) -> str:
        """A token's text depends on those before it (word starts, spacing), of which a few are
        enough: it is what decoding them with and without the token differs by."""
        byte = self._tokenizer.byte_of(token)
        if byte is None:
            before, after = self._decode(self._context), self._decode([*self._context, token])
            text = self.finish() + after[len(before) :]
        else:
            text = self._bytes.decode(bytes([byte]))
        self._context = [*self._context, token][-_CONTEXT_TOKENS:]
        return text

    def _decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, skip_special=False)
