"""Text to ids and back, over HTTP."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from common.domain.finish import FinishReason
from tests.support.gateway import Gateway, running_gateway


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with running_gateway() as running:
        cluster = running.cluster
        cluster.script = lambda asked: cluster.play(asked, [b"ok"], FinishReason.LENGTH)
        yield running


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"prompt": "hi"}, {"count": 2, "max_model_len": 256, "tokens": [104, 105]}),
        ({"prompt": ""}, {"count": 0, "max_model_len": 256, "tokens": []}),
        ({"prompt": "é", "return_token_strs": True},
         {"count": 2, "max_model_len": 256, "tokens": [195, 169],
          "token_strs": ["\ufffd", "\ufffd"]}),
    ],
)  # fmt: skip
async def test_tokenize(gateway: Gateway, body: dict[str, Any], answer: dict[str, Any]) -> None:
    assert (await gateway.post("/tokenize", body))[:2] == (200, answer)


async def test_tokenize_counts_what_chat_would_send(gateway: Gateway) -> None:
    messages = {"messages": [{"role": "user", "content": "hi"}]}
    _, counted, _ = await gateway.post("/tokenize", messages)
    _, answered, _ = await gateway.post("/v1/chat/completions", messages | {"max_tokens": 2})
    assert counted["count"] == answered["usage"]["prompt_tokens"]


async def test_tokenize_of_a_long_text_leaves_the_loop_free(gateway: Gateway) -> None:
    _, body, _ = await gateway.post("/tokenize", {"prompt": "x" * 50_000})
    assert body["count"] == 50_000


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": 1}, "prompt"),
        ("/tokenize", {"prompt": "x", "messages": []}, "messages"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": "x"}, "tokens"),
        ("/detokenize", {"tokens": [260]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens[0]"),
    ],
)
async def test_wrong_text_requests(
    gateway: Gateway, path: str, body: dict[str, Any], param: str
) -> None:
    status, answer, _ = await gateway.post(path, body)
    assert status == 400
    assert answer["error"]["param"] == param


async def test_detokenize_reverses_tokenize(gateway: Gateway) -> None:
    _, ids, _ = await gateway.post("/tokenize", {"prompt": "né한"})
    status, body, _ = await gateway.post("/detokenize", {"tokens": ids["tokens"]})
    assert (status, body) == (200, {"prompt": "né한"})
