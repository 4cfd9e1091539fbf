"""The tokenizer of mock clusters: an id is a byte."""

import pytest

from services.gateway.mock_text import MOCK_EOS, MOCK_VOCAB, mock_text


@pytest.mark.parametrize("text", ["plain", " a  b\n\t", "né한𝄞", "".join(map(chr, range(256)))])
def test_ids_are_the_bytes_of_the_text(text: str) -> None:
    tokenizer = mock_text().tokenizer
    assert bytes(tokenizer.encode(text, add_special=True)) == text.encode()
    assert tokenizer.decode(list(text.encode()), skip_special=False) == text


def test_every_byte_and_every_special_token_has_its_id() -> None:
    tokenizer = mock_text().tokenizer
    assert tokenizer.vocab == MOCK_VOCAB
    assert [tokenizer.token_bytes(i) for i in range(256)] == [bytes([i]) for i in range(256)]
    assert tokenizer.token_bytes(MOCK_EOS) == b"</s>"
    assert tokenizer.special_ids == {256, 257, 258, 259}
