"""Text of the served model: from a checkpoint on disk, on the loop or beside it."""

from datetime import datetime
from pathlib import Path

import pytest

from common.domain.errors import InvalidRequest
from common.text.chat_template import ChatTemplate
from common.text.tokenizer import Tokenizer
from services.gateway.served_text import LONG_TEXT_CHARACTERS, ServedText, served_text
from tests.support.tiny_tokenizer import tiny_source

USER = [{"role": "user", "content": "ba de"}]


def text(*, template: bool = True) -> ServedText:
    source = tiny_source(1)
    made = None
    if template:
        assert source.chat_template is not None
        made = ChatTemplate(source.chat_template, source.special_tokens, datetime.now)
    return ServedText(Tokenizer(source, ()), made, source.digest)


async def test_a_long_text_gives_the_ids_that_its_thread_less_encoding_gives() -> None:
    served = text()
    long = "ba de ki " * (LONG_TEXT_CHARACTERS // 4)
    expected = served.tokenizer.encode(long, add_special=False)
    assert await served.encode(long, add_special=False) == expected
    served.close()


async def chat(served: ServedText) -> list[int]:
    return await served.encode_chat(
        USER, add_generation_prompt=True, continue_final_message=False, kwargs={}
    )


async def test_chat_is_the_template_without_further_special_tokens() -> None:
    served = text()
    ids = await chat(served)
    expected = "<|im_start|>user\nba de<|im_end|>\n<|im_start|>assistant\n"
    assert served.decode(ids) == expected


async def test_a_model_without_a_template_cannot_chat() -> None:
    with pytest.raises(InvalidRequest, match="chat template"):
        await chat(text(template=False))


async def test_read_from_a_folder(tmp_path: Path) -> None:
    source = tiny_source(1)
    (tmp_path / "tokenizer.json").write_text(source.tokenizer_json)
    (tmp_path / "chat_template.jinja").write_text(source.chat_template or "")
    (tmp_path / "config.json").write_text("{}")
    served = served_text(str(tmp_path), tmp_path / "cache")
    assert len(served.digest) == 64
    assert served.decode(await chat(served)).startswith("<|im_start|>user")
