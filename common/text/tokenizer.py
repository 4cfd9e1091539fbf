"""Text to token ids and back, and the exact bytes of each token.

A wrapper around the Hugging Face tokenizer that the checkpoint describes, without its truncation
and padding. Two families are told apart because their bytes are found differently: byte-level ones
spell every byte as a printable character, all others are text with, at most, `<0xNN>` for bytes.
"""

import json
import re
from collections.abc import Sequence
from functools import lru_cache

import tokenizers

from common.checkpoint.errors import CheckpointError
from common.checkpoint.tokenizer_source import TokenizerSource
from common.domain.errors import InvalidRequest

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_WORD_START = "\u2581"


class Tokenizer:
    def __init__(self, source: TokenizerSource, eos_token_ids: tuple[int, ...]) -> None:
        self.eos_token_ids = eos_token_ids
        self.digest = source.digest
        self._tokenizer = _build(source.tokenizer_json)
        added = self._tokenizer.get_added_tokens_decoder()
        self.special_ids = frozenset(index for index, token in added.items() if token.special)
        decoder = json.loads(source.tokenizer_json).get("decoder")
        self.byte_level = _has_step(decoder, "ByteLevel")
        """Any text is a run of bytes of tokens, and nothing else."""
        self._byte_fallback = _has_step(decoder, "ByteFallback")
        self.token_bytes = lru_cache(maxsize=1 << 16)(self._token_bytes)

    @property
    def vocab(self) -> int:
        """Tokens with a text. A model may have rows for more ids; those decode to nothing."""
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, add_special: bool) -> list[int]:
        """Special tokens written out in `text` become their ids, as in Hugging Face. `add_special`
        adds what the model expects around a plain text (a beginning-of-sequence token, say)."""
        try:
            return self._tokenizer.encode(text, add_special_tokens=add_special).ids
        except TypeError as error:
            raise InvalidRequest("the text is not valid Unicode (a lone surrogate)") from error

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=skip_special)

    def byte_of(self, token: int) -> int | None:
        """The byte that a byte-fallback token stands for."""
        text = self._tokenizer.id_to_token(token) if self._byte_fallback else None
        match = None if text is None else _BYTE_TOKEN.fullmatch(text)
        return None if match is None else int(match[1], 16)

    def _token_bytes(self, token: int) -> bytes:
        """What the token adds to a text, where that does not depend on its neighbours."""
        text = self._tokenizer.id_to_token(token)
        if text is None:
            return b""
        if self.byte_level:
            return _alphabet_bytes(text)
        byte = self.byte_of(token)
        return text.replace(_WORD_START, " ").encode() if byte is None else bytes([byte])


def _build(tokenizer_json: str) -> tokenizers.Tokenizer:
    try:
        tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json)
    except Exception as error:  # the library raises nothing narrower
        raise CheckpointError(f"the tokenizer cannot be read: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _has_step(decoder: object, kind: str) -> bool:
    """Whether a decoder is, or a sequence of them contains, one of this type."""
    if not isinstance(decoder, dict):
        return False
    steps = decoder.get("decoders", [])
    return decoder.get("type") == kind or any(_has_step(step, kind) for step in steps)


def _alphabet() -> dict[str, int]:
    """Byte-level BPE writes printable Latin-1 bytes as themselves, and the other 68, in order, as
    the characters from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}


_BYTE_OF_CHARACTER = _alphabet()


def _alphabet_bytes(text: str) -> bytes:
    """An added token may hold characters outside the alphabet: then it stands for itself."""
    if all(character in _BYTE_OF_CHARACTER for character in text):
        return bytes(_BYTE_OF_CHARACTER[character] for character in text)
    return text.encode()
