"""The tokenizer of clusters that run the mock engine: one id a byte, four special tokens.

It is a real tokenizer description, so the same code reads it as any model's; nothing is downloaded.
"""

import json

from common.checkpoint.tokenizer_source import SpecialTokens, TokenizerSource
from common.text.chat_template import ChatTemplate
from common.text.tokenizer import Tokenizer
from services.gateway.served_text import ServedText, local_time

MOCK_DIGEST = "mock"
MOCK_VOCAB = 260
MOCK_EOS = 257
_SPECIALS = {"<s>": 256, "</s>": MOCK_EOS, "<|start|>": 258, "<|end|>": 259}
_TEMPLATE = (
    "{% for message in messages %}"
    "<|start|>{{ message.role }}\n{{ message.content }}<|end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def mock_text() -> ServedText:
    special = SpecialTokens(bos="<s>", eos="</s>")
    tokenizer = Tokenizer(TokenizerSource(_tokenizer_json(), _TEMPLATE, special), (MOCK_EOS,))
    template = ChatTemplate(_TEMPLATE, special, local_time)
    return ServedText(tokenizer, template, MOCK_DIGEST)


def _tokenizer_json() -> str:
    """Byte-level BPE without merges. Bytes that print are spelled as themselves, the other 68 as
    the characters from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    vocab = {chr(byte): byte for byte in printable}
    vocab |= {chr(256 + rank): byte for rank, byte in enumerate(others)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [_added(token, index) for token, index in _SPECIALS.items()],
            "pre_tokenizer": byte_level | {"trim_offsets": True},
            "decoder": byte_level | {"trim_offsets": True},
            "model": {"type": "BPE", "vocab": vocab, "merges": []},
        }
    )


def _added(token: str, index: int) -> dict[str, object]:
    return {
        "id": index,
        "content": token,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
