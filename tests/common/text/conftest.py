import pytest

from common.checkpoint.tokenizer_source import SpecialTokens, TokenizerSource
from common.text.tokenizer import Tokenizer
from tests.support.tiny_tokenizer import byte_fallback_tokenizer, tiny_source


@pytest.fixture(scope="session")
def byte_level() -> Tokenizer:
    return Tokenizer(tiny_source(7), eos_token_ids=(2,))


@pytest.fixture(scope="session")
def byte_fallback() -> Tokenizer:
    text = byte_fallback_tokenizer(7).to_str()
    return Tokenizer(TokenizerSource(text, None, SpecialTokens()), eos_token_ids=(2,))
