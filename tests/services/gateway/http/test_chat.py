"""Chat over HTTP, against a cluster that the test plays."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from common.domain.finish import FinishReason
from common.wire.messages.submit import Cancel, Submit
from services.gateway.mock_text import MOCK_EOS
from tests.support.gateway import Gateway, prompt_of, row, running_gateway, until

CHAT = "/v1/chat/completions"
PART = {"type": "text"}
HELLO = {"model": "mock", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with running_gateway() as running:
        yield running


def say(gateway: Gateway, *texts: bytes, end: bool = False) -> None:
    """Every submit is answered with these choices, as LENGTH or, with `end`, with an end token."""

    def script(submit: Submit) -> None:
        tail = [MOCK_EOS] if end else []
        finish = FinishReason.STOP if end else FinishReason.LENGTH
        gateway.cluster.play(submit, [[*text, *tail] for text in texts], finish)

    gateway.cluster.script = script


async def test_whole_answer(gateway: Gateway) -> None:
    say(gateway, "héllo".encode(), end=True)
    status, body, headers = await gateway.post(CHAT, HELLO)
    assert status == 200
    assert body["object"] == "chat.completion"
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "héllo"},
            "logprobs": None,
            "finish_reason": "stop",
            "stop_reason": None,
        }
    ]
    prompt = prompt_of(gateway.cluster.submits.get_nowait())
    assert body["usage"] == {
        "prompt_tokens": len(prompt),
        "completion_tokens": 7,
        "total_tokens": len(prompt) + 7,
        "prompt_tokens_details": {"cached_tokens": 16},
    }
    assert body["id"] == f"chatcmpl-{headers['X-Request-Id']}"


async def test_prompt_is_the_rendered_template(gateway: Gateway) -> None:
    say(gateway, b"x")
    await gateway.post(CHAT, HELLO)
    text = bytes(i for i in prompt_of(gateway.cluster.submits.get_nowait()) if i < 256)
    assert text == b"user\nhi\nassistant\n"


async def test_stream_is_framed_exactly(gateway: Gateway) -> None:
    say(gateway, b"ab", end=True)
    raw = await gateway.stream(CHAT, HELLO | {"stream_options": {"include_usage": True}})
    frames = raw.split("\n\n")
    first = json.loads(frames[0].removeprefix("data: "))
    head = f'"id":"{first["id"]}","object":"chat.completion.chunk","created":{first["created"]},'
    head += '"model":"mock"'
    text = "".join(
        json.loads(f.removeprefix("data: "))["choices"][0]["delta"].get("content", "")
        for f in frames
        if '"content"' in f
    )
    assert text == "ab"
    assert frames[0] == (
        f'data: {{{head},"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},'
        '"logprobs":null,"finish_reason":null}]}'
    )
    assert frames[1].startswith(f'data: {{{head},"choices":[{{"index":0,"delta":{{"content":"a')
    assert frames[-4] == (
        f'data: {{{head},"choices":[{{"index":0,"delta":{{}},"logprobs":null,'
        '"finish_reason":"stop","stop_reason":null}]}'
    )
    assert json.loads(frames[-3].removeprefix("data: "))["choices"] == []
    assert frames[-2:] == ["data: [DONE]", ""]


def chunks(raw: str) -> list[dict[str, Any]]:
    """All frames but the end mark, which must be the last and only one."""
    frames = raw.split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    assert frames.count("data: [DONE]") == 1
    return [json.loads(frame.removeprefix("data: ")) for frame in frames[:-2]]


def texts(parts: list[dict[str, Any]]) -> dict[int, str]:
    joined: dict[int, str] = {}
    for part in parts:
        for choice in part["choices"]:
            content = choice["delta"].get("content", "")
            joined[choice["index"]] = joined.get(choice["index"], "") + content
    return joined


async def test_two_choices_have_a_role_each_and_their_own_end(gateway: Gateway) -> None:
    say(gateway, b"one", b"second")
    parts = chunks(await gateway.stream(CHAT, HELLO | {"n": 2}))
    roles = [c["index"] for p in parts for c in p["choices"] if "role" in c["delta"]]
    ends = [(c["index"], c["finish_reason"]) for p in parts for c in p["choices"]
            if c["finish_reason"]]  # fmt: skip
    assert roles == [0, 1]
    assert sorted(ends) == [(0, "length"), (1, "length")]
    assert texts(parts) == {0: "one", 1: "second"}
    status, body, _ = await gateway.post(CHAT, HELLO | {"n": 2})
    assert status == 200
    assert [c["message"]["content"] for c in body["choices"]] == ["one", "second"]
    assert body["usage"]["completion_tokens"] == 9


@pytest.mark.parametrize(
    ("stop", "expected", "tokens"),
    [
        ("lo", "hel", 5),
        (["x", "o w"], "hell", 7),
        ("wor", "hello ", 9),
        ("nope", "hello world", 11),
    ],
)
async def test_stop_strings_end_both_modes_alike(
    gateway: Gateway, stop: object, expected: str, tokens: int
) -> None:
    say(gateway, b"hello world")
    body = HELLO | {"stop": stop, "max_tokens": 11}
    _, whole, _ = await gateway.post(CHAT, body)
    parts = chunks(await gateway.stream(CHAT, body | {"stream_options": {"include_usage": True}}))
    stopped = expected != "hello world"
    (choice,) = whole["choices"]
    assert choice["message"]["content"] == expected
    assert texts(parts) == {0: expected}
    last = next(c for p in parts for c in p["choices"] if c["finish_reason"])
    for end in (choice, last):
        assert end["finish_reason"] == ("stop" if stopped else "length")
        assert (end["stop_reason"] is not None) == stopped
    assert whole["usage"]["completion_tokens"] == tokens
    assert parts[-1]["usage"]["completion_tokens"] == tokens


async def test_a_stop_string_cancels_the_attempt_once_all_choices_are_done(
    gateway: Gateway,
) -> None:
    def script(asked: Submit) -> None:
        gateway.cluster.place(asked)
        gateway.cluster.from_worker(row(asked.key, list(b"aXb")))
        gateway.cluster.from_worker(row(asked.key, list(b"cXd"), choice=1))

    gateway.cluster.script = script
    parts = chunks(await gateway.stream(CHAT, HELLO | {"n": 2, "stop": "X"}))
    assert texts(parts) == {0: "a", 1: "c"}
    asked = gateway.cluster.submits.get_nowait()
    await until(lambda: Cancel(asked.key) in gateway.cluster.router.heard)
    await until(lambda: Cancel(asked.key) in gateway.cluster.worker.heard)


@pytest.mark.parametrize("text", ["é", "한글", "𝄞", "naïve 日本 🙂"])
async def test_characters_spread_over_tokens_are_whole_in_every_chunk(
    gateway: Gateway, text: str
) -> None:
    say(gateway, text.encode())
    parts = chunks(await gateway.stream(CHAT, HELLO | {"max_tokens": 64}))
    assert texts(parts) == {0: text}
    assert all("\ufffd" not in json.dumps(p, ensure_ascii=False) for p in parts)


@pytest.mark.parametrize(
    ("options", "shown"),
    [({"include_usage": True}, True), ({"include_usage": False}, False), ({}, False), (None, False),
     ({"include_usage": None}, False)],
)  # fmt: skip
async def test_usage_comes_last_and_only_when_asked_for(
    gateway: Gateway, options: object, shown: bool
) -> None:
    say(gateway, b"abc")
    parts = chunks(await gateway.stream(CHAT, HELLO | {"stream_options": options}))
    assert [p["usage"]["completion_tokens"] for p in parts if "usage" in p] == [3] * shown
    if shown:
        assert parts[-1]["choices"] == []
        assert parts[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": 16}
    assert all(p["choices"] for p in parts[: len(parts) - shown])


async def test_the_ledger_stands_beside_usage_where_it_is_asked_for(gateway: Gateway) -> None:
    say(gateway, b"abc")
    asked = HELLO | {"return_ledger": True}
    _, whole, _ = await gateway.post(CHAT, asked)
    options = {"include_usage": True, "continuous_usage_stats": True}
    parts = chunks(await gateway.stream(CHAT, asked | {"stream_options": options}))
    for answer in (whole, parts[-1]):
        assert answer["usage"]["completion_tokens"] == 3
        assert answer["ledger"]["cached_device_tokens"] == 16
        assert answer["ledger"]["prefill_worker"] == ["prefill-0"]
        assert answer["ledger"]["decode_worker"] == ["decode-0"]
    assert not [part for part in parts[:-1] if "ledger" in part]
    _, unasked, _ = await gateway.post(CHAT, HELLO)
    assert "ledger" not in unasked


async def test_running_usage_grows_with_every_chunk(gateway: Gateway) -> None:
    say(gateway, b"abc")
    options = {"include_usage": True, "continuous_usage_stats": True}
    parts = chunks(await gateway.stream(CHAT, HELLO | {"stream_options": options}))
    counts = [p["usage"]["completion_tokens"] for p in parts if "usage" in p]
    assert counts == sorted(counts)
    assert len(counts) >= len(parts) - 1
    assert counts[-1] == 3


async def test_logprobs_name_tokens_and_bytes(gateway: Gateway) -> None:
    say(gateway, "aé".encode())
    body = HELLO | {"logprobs": True, "top_logprobs": 1}
    _, whole, _ = await gateway.post(CHAT, body)
    content = whole["choices"][0]["logprobs"]["content"]
    assert [entry["bytes"] for entry in content] == [[97], [0xC3], [0xA9]]
    assert content[0] == {
        "token": "a",
        "logprob": -0.5,
        "bytes": [97],
        "top_logprobs": [{"token": "a", "logprob": -0.5, "bytes": [97]}],
    }
    parts = chunks(await gateway.stream(CHAT, body))
    shown = [c["logprobs"] for p in parts for c in p["choices"] if c["logprobs"] is not None]
    assert [entry for logprobs in shown for entry in logprobs["content"]] == content


async def test_logprobs_without_rivals(gateway: Gateway) -> None:
    say(gateway, b"a")
    _, whole, _ = await gateway.post(CHAT, HELLO | {"logprobs": True})
    assert whole["choices"][0]["logprobs"]["content"][0]["top_logprobs"] == []


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        (None, "messages"),
        ([], "messages"),
        ("hi", "messages"),
        ([{}], "messages[0].role"),
        ([{"role": "user", "content": "x"}, {"role": "alien", "content": "x"}], "messages[1].role"),
        ([{"role": "user", "content": 7}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
         "messages[0].content"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content"),
        (["hi"], "messages[0]"),
    ],
)  # fmt: skip
async def test_messages_that_make_no_conversation(
    gateway: Gateway, messages: object, param: str
) -> None:
    status, body, _ = await gateway.post(CHAT, HELLO | {"messages": messages})
    assert status == 400
    assert body["error"]["param"] == param
    say(gateway, b"ok")
    assert (await gateway.post(CHAT, HELLO))[0] == 200


@pytest.mark.parametrize(
    ("message", "rendered"),
    [
        ({"role": "user", "content": ""}, "user\n\n"),
        ({"role": "user", "content": None}, "user\n\n"),
        ({"role": "user"}, "user\n\n"),
        ({"role": "developer", "content": "x"}, "system\nx\n"),
        ({"role": "user", "content": [PART | {"text": "a"}, PART | {"text": "b"}]}, "user\na\nb\n"),
    ],
)  # fmt: skip
async def test_contents_that_templates_can_show(
    gateway: Gateway, message: dict[str, object], rendered: str
) -> None:
    say(gateway, b"ok")
    assert (await gateway.post(CHAT, HELLO | {"messages": [message]}))[0] == 200
    ids = prompt_of(gateway.cluster.submits.get_nowait())
    assert bytes(i for i in ids if i < 256).decode() == rendered + "assistant\n"


async def test_the_final_message_can_be_continued(gateway: Gateway) -> None:
    say(gateway, b"ok")
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "it is"}]
    body = HELLO | {"messages": messages, "continue_final_message": True}
    assert (await gateway.post(CHAT, body))[0] == 200
    ids = prompt_of(gateway.cluster.submits.get_nowait())
    assert bytes(i for i in ids if i < 256).endswith(b"assistant\nit is")


async def test_a_cache_salt_gives_the_blocks_other_names(
    gateway: Gateway,
) -> None:
    say(gateway, b"ok")
    long = {"messages": [{"role": "user", "content": "x" * 64}], "max_tokens": 4}
    units = []
    for extra in ({}, {}, {"cache_salt": "a"}, {"cache_salt": "b"}):
        assert (await gateway.post(CHAT, long | extra))[0] == 200
        asked = gateway.cluster.submits.get_nowait()
        assert len(asked.units) == len(prompt_of(asked)) // 16 * 32
        units.append(asked.units)
    assert units[0] == units[1]
    assert len({*units}) == 3
