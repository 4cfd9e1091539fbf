"""Completions over HTTP: every form of prompt, echo, logprobs, framing."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from common.domain.errors import ErrorCode
from common.domain.finish import FinishReason
from common.wire.messages.submit import Cancel, Submit
from services.gateway.mock_text import MOCK_VOCAB
from tests.support.gateway import Gateway, prompt_of, running_gateway, until

TEXT = "/v1/completions"
HI: dict[str, Any] = {"prompt": "hi", "max_tokens": 8}


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    """Every prompt is answered with itself in capitals, choice by choice."""
    async with running_gateway() as running:

        def script(asked: Submit) -> None:
            text = bytes(prompt_of(asked)).upper()
            answers = [text + str(choice).encode() for choice in range(asked.sampling.n)]
            running.cluster.play(asked, answers, FinishReason.LENGTH)

        running.cluster.script = script
        yield running


def chunks(raw: str) -> list[dict[str, Any]]:
    frames = raw.split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    return [json.loads(frame.removeprefix("data: ")) for frame in frames[:-2]]


def texts(parts: list[dict[str, Any]]) -> dict[int, str]:
    joined: dict[int, str] = {}
    for choice in (choice for part in parts for choice in part["choices"]):
        joined[choice["index"]] = joined.get(choice["index"], "") + choice["text"]
    return joined


async def test_whole_answer(gateway: Gateway) -> None:
    status, body, headers = await gateway.post(TEXT, HI)
    assert status == 200
    assert body["object"] == "text_completion"
    assert body["id"] == f"cmpl-{headers['X-Request-Id']}"
    assert body["choices"] == [
        {
            "index": 0,
            "text": "HI0",
            "logprobs": None,
            "finish_reason": "length",
            "stop_reason": None,
        }
    ]
    assert body["usage"] == {
        "prompt_tokens": 2,
        "completion_tokens": 3,
        "total_tokens": 5,
        # The writer speaks of 16; more than the prompt cannot be cached.
        "prompt_tokens_details": {"cached_tokens": 2},
    }


async def test_stream_ends_with_the_reason_on_a_chunk_of_its_choice(gateway: Gateway) -> None:
    parts = chunks(await gateway.stream(TEXT, HI))
    assert texts(parts) == {0: "HI0"}
    assert [c["finish_reason"] for p in parts for c in p["choices"]][-1] == "length"
    assert all(p["object"] == "text_completion" for p in parts)


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("hi", [b"hi"]),
        (["hi", "yo"], [b"hi", b"yo"]),
        ([104, 105], [b"hi"]),
        ([[104, 105], [121]], [b"hi", b"y"]),
        (["hi", [121]], [b"hi", b"y"]),
    ],
)
async def test_every_form_of_prompt(gateway: Gateway, prompt: object, prompts: list[bytes]) -> None:
    status, body, _ = await gateway.post(TEXT, HI | {"prompt": prompt, "n": 2})
    assert status == 200
    expected = [f"{p.decode().upper()}{n}" for p in prompts for n in range(2)]
    assert [c["text"] for c in body["choices"]] == expected
    assert [c["index"] for c in body["choices"]] == list(range(len(expected)))
    assert body["usage"]["prompt_tokens"] == sum(map(len, prompts))
    streamed = texts(chunks(await gateway.stream(TEXT, HI | {"prompt": prompt, "n": 2})))
    assert streamed == dict(enumerate(expected))


@pytest.mark.parametrize(
    "prompt",
    [None, "", [], [""], ["a", ""], [[]], [[1], []], [MOCK_VOCAB], [MOCK_VOCAB + 1], [-1], [2**31],
     [[2**63]], [1.5], [1, "a"], ["a", 1], [True], 7, {"a": 1}, [None], ["x"] * 65],
)  # fmt: skip
async def test_prompts_that_are_none_are_refused_and_harm_nobody(
    gateway: Gateway, prompt: object
) -> None:
    status, body, _ = await gateway.post(TEXT, HI | {"prompt": prompt})
    assert status == 400
    assert body["error"]["param"] == "prompt"
    assert (await gateway.post(TEXT, HI))[0] == 200


@pytest.mark.parametrize(
    ("prompt", "echoed"), [("hi", ["hi"]), ([104, 105], ["hi"]), (["a", "b"], ["a", "b"])]
)
async def test_echo_repeats_each_prompt_before_its_choices(
    gateway: Gateway, prompt: object, echoed: list[str]
) -> None:
    body = HI | {"prompt": prompt, "echo": True, "n": 2}
    expected = [f"{p}{p.upper()}{n}" for p in echoed for n in range(2)]
    _, whole, _ = await gateway.post(TEXT, body)
    assert [c["text"] for c in whole["choices"]] == expected
    assert texts(chunks(await gateway.stream(TEXT, body))) == dict(enumerate(expected))


async def test_the_ledger_is_the_sum_over_all_prompts(gateway: Gateway) -> None:
    asked = HI | {"prompt": ["hi", "yo"], "return_ledger": True}
    _, whole, _ = await gateway.post(TEXT, asked)
    options = {"stream_options": {"include_usage": True}}
    last = chunks(await gateway.stream(TEXT, asked | options))[-1]
    for answer in (whole, last):
        assert answer["ledger"]["cached_device_tokens"] == 32
        assert answer["ledger"]["decode_worker"] == ["decode-0"]


async def test_logprobs_are_columns_with_offsets(gateway: Gateway) -> None:
    _, whole, _ = await gateway.post(TEXT, HI | {"logprobs": 2})
    logprobs = whole["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["H", "I", "0"]
    assert logprobs["token_logprobs"] == [-0.5] * 3
    assert logprobs["text_offset"] == [0, 1, 2]
    assert logprobs["top_logprobs"][0] == {"H": -0.5, "I": -1.5}
    parts = chunks(await gateway.stream(TEXT, HI | {"logprobs": 2}))
    shown = [c["logprobs"] for p in parts for c in p["choices"] if c["logprobs"]]
    assert [token for columns in shown for token in columns["tokens"]] == logprobs["tokens"]


async def test_a_token_that_is_half_a_character_is_spelled_out(gateway: Gateway) -> None:
    _, whole, _ = await gateway.post(TEXT, HI | {"prompt": "é", "logprobs": 0})
    logprobs = whole["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["bytes:\\xc3", "bytes:\\xa9", "0"]
    assert logprobs["text_offset"] == [0, 0, 1]


async def test_a_failure_of_one_prompt_ends_the_whole_request(gateway: Gateway) -> None:
    def script(asked: Submit) -> None:
        if asked.key.request.endswith("-1"):
            gateway.cluster.fail(asked, ErrorCode.OVERLOADED, retryable=True)

    gateway.cluster.script = script
    status, _, headers = await gateway.post(TEXT, HI | {"prompt": ["a", "b", "c"]})
    assert status == 503
    assert headers["Retry-After"] == "3"
    await until(lambda: len(gateway.cluster.router.kept(Cancel)) == 2)
    assert len(gateway.app.attempts) == 0
