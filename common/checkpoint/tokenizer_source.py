"""What a gateway needs to turn messages into token ids: three texts, and one digest over them.

A source is plain data, so it can come from a Hugging Face folder, be built from GGUF metadata, or
be read back from the cache, and nobody downstream can tell.
"""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Strings that chat templates name."""

    bos: str | None = None
    eos: str | None = None
    pad: str | None = None
    unk: str | None = None


@dataclass(frozen=True, slots=True)
class TokenizerSource:
    tokenizer_json: str
    """Source text that `tokenizers.Tokenizer.from_str` understands."""
    chat_template: str | None
    """Jinja source, or None: the model has no chat format."""
    special_tokens: SpecialTokens

    @property
    def digest(self) -> str:
        """SHA-256 hex: equal digests give equal ids for equal messages."""
        special = self.special_tokens
        texts = (
            self.tokenizer_json,
            self.chat_template,
            special.bos,
            special.eos,
            special.pad,
            special.unk,
        )
        total = hashlib.sha256(b"twinfleet tokenizer 1")
        for text in texts:
            total.update(hashlib.sha256(b"" if text is None else b"=" + text.encode()).digest())
        return total.hexdigest()
