"""Every field at and beyond its bounds, over HTTP; then what only the card can decide."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from common.domain.finish import FinishReason
from common.domain.sampling import SamplingParams
from services.gateway.mock_text import MOCK_VOCAB
from tests.support.gateway import Gateway, running_gateway, with_context

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
PROMPT: dict[str, Any] = {"prompt": "hi", "max_tokens": 4}
BIG = 2**63
INF = float("inf")
NAN = float("nan")
WRONG_KIND = [NAN, INF, "1", [1], {"a": 1}]

BOUNDS: dict[str, tuple[list[Any], list[Any]]] = {
    "temperature": ([0, 2, 0.5], [-1, -0.001, 2.001, 3, BIG, True, *WRONG_KIND]),
    "top_p": ([1, 0.001], [-1, 0, 1.001, 2, BIG, True, *WRONG_KIND]),
    "min_p": ([0, 1, 0.5], [-1, 1.001, 2, BIG, True, *WRONG_KIND]),
    "top_k": ([-1, 0, 1, 2**31 - 1], [-2, 2**31, BIG, 1.5, True, *WRONG_KIND]),
    "repetition_penalty": ([0.001, 1, 10], [-1, 0, 10.1, BIG, *WRONG_KIND]),
    "presence_penalty": ([-2, -1, 0, 2], [-2.1, 2.1, 3, BIG, *WRONG_KIND]),
    "frequency_penalty": ([-2, -1, 0, 2], [-2.1, 2.1, 3, BIG, *WRONG_KIND]),
    "n": ([1, 8], [-1, 0, 9, BIG, 1.5, True, *WRONG_KIND]),
    "max_tokens": ([1, 100], [-1, 0, 2**31, BIG, 1.5, True, *WRONG_KIND]),
    "min_tokens": ([0, 4], [-1, 5, 2**31, BIG, 1.5, *WRONG_KIND]),
    "seed": ([-(2**63), -1, 0, 2**63 - 1], [2**63, -(2**63) - 1, 2**70, 1.5, *WRONG_KIND]),
    "priority": ([-1, 0, 2**31 - 1], [2**31, BIG, 0.5, *WRONG_KIND]),
    "stop": (
        ["x", [], ["x"], ["x"] * 16],
        ["", [""], ["x"] * 17, 1, [1], "x" * 1025, {"a": "b"}, [None], True],
    ),
    "stop_token_ids": (
        [[], [0], [MOCK_VOCAB - 1]],
        [[MOCK_VOCAB], [MOCK_VOCAB + 1], [-1], [2**31], [BIG], [0.5], ["1"], 1, "1", [1] * 65],
    ),
    "logit_bias": (
        [{}, {"0": 1}, {"259": -100}, {"1": 100}],
        [{"260": 1}, {"261": 1}, {"-1": 1}, {str(2**31): 1}, {"x": 1}, {"1": 101}, {"1": -101},
         {"1": NAN}, {"1": "2"}, {"1": None}, {"": 1}, {"1.0": 1}, {"\u0661": 1}, [1], "1", 1,
         {str(i): 1 for i in range(1025)}],
    ),
    "cache_salt": (["x", "x" * 128, "@/\\"], ["", "x" * 129, 1, ["x"]]),
    "ignore_eos": ([True, False], [1, 0, "true", [True]]),
    "stream": ([False], [1, "false", [True]]),
    "skip_special_tokens": ([True, False], [1, "x"]),
    "include_stop_str_in_output": ([True, False], [1, "x"]),
    "return_ledger": ([True, False], [1, "x"]),
    "request_id": (["", "x"], [1, ["x"]]),
    "model": (["", "mock"], [1, ["mock"], {"a": 1}]),
}  # fmt: skip
CHAT_BOUNDS: dict[str, tuple[list[Any], list[Any]]] = {
    "max_completion_tokens": ([1, 100], [-1, 0, 2**31, BIG, 1.5, *WRONG_KIND]),
    "logprobs": ([True, False], [1, 0, "true", 5]),
    "top_logprobs": ([0], [-1, 1, 21, BIG, 1.5, *WRONG_KIND]),
    "add_generation_prompt": ([True, False], [1, "x"]),
    "chat_template_kwargs": ([{}, {"a": [1]}], [1, "x", [1]]),
    "reasoning_effort": (["low"], [1, ["low"]]),
}
TEXT_BOUNDS: dict[str, tuple[list[Any], list[Any]]] = {
    "logprobs": ([0, 1, 20], [-1, 21, BIG, True, 1.5, *WRONG_KIND]),
    "echo": ([True, False], [1, "x", [True]]),
}
CASES = [
    *((CHAT, HELLO, name, bounds) for name, bounds in (BOUNDS | CHAT_BOUNDS).items()),
    *((TEXT, PROMPT, name, bounds) for name, bounds in (BOUNDS | TEXT_BOUNDS).items()),
]


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with running_gateway() as running:
        cluster = running.cluster
        cluster.script = lambda asked: cluster.play(
            asked, [[65]] * asked.sampling.n, FinishReason.LENGTH
        )
        yield running


async def post(gateway: Gateway, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """With NaN and Infinity as Python writes them."""
    headers = {"Content-Type": "application/json"}
    data = json.dumps(body)
    async with gateway.http.post(gateway.url + path, data=data, headers=headers) as response:
        return response.status, await response.json()


@pytest.mark.parametrize(
    ("path", "base", "name", "bounds"), CASES, ids=[f"{c[0][4:8]}-{c[2]}" for c in CASES]
)
async def test_each_field_at_and_beyond_its_bounds(
    gateway: Gateway, path: str, base: dict[str, Any], name: str, bounds: tuple[list[Any], ...]
) -> None:
    good, bad = bounds
    for value in [None, *good]:
        status, body = await post(gateway, path, base | {name: value})
        assert status == 200, (value, body)
    for value in bad:
        status, body = await post(gateway, path, base | {name: value})
        assert status == 400, (value, body)
        assert body["error"]["type"] == "invalid_request_error"
        assert body["error"]["param"].split("[")[0] == name, (value, body)
    status, _ = await post(gateway, path, base)
    assert status == 200


async def sampled(gateway: Gateway, path: str, body: dict[str, Any]) -> SamplingParams:
    while not gateway.cluster.submits.empty():
        gateway.cluster.submits.get_nowait()
    status, answer = await post(gateway, path, body)
    assert status == 200, answer
    return gateway.cluster.submits.get_nowait().sampling


async def test_every_field_reaches_the_sampler(gateway: Gateway) -> None:
    body = PROMPT | {
        "n": 2, "seed": 5, "temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1,
        "repetition_penalty": 1.1, "presence_penalty": 0.2, "frequency_penalty": -0.3,
        "logit_bias": {"9": 2, "3": -1.5}, "min_tokens": 2, "ignore_eos": True,
        "stop_token_ids": [4], "logprobs": 3,
    }  # fmt: skip
    assert await sampled(gateway, TEXT, body) == SamplingParams(
        seed=5, max_tokens=4, n=2, temperature=0.5, top_k=7, top_p=0.9, min_p=0.1,
        repetition_penalty=1.1, presence_penalty=0.2, frequency_penalty=-0.3,
        logit_bias=((3, -1.5), (9, 2.0)), logprobs=3, min_tokens=2, stop_token_ids=(4,),
        ignore_eos=True,
    )  # fmt: skip


async def test_defaults_of_the_sampler(gateway: Gateway) -> None:
    sampling = await sampled(gateway, TEXT, {"prompt": "hi"})
    assert 0 <= sampling.seed < 2**63
    assert sampling == SamplingParams(seed=sampling.seed, max_tokens=254)


async def test_an_unseeded_request_gets_another_seed_each_time(gateway: Gateway) -> None:
    seeds = {(await sampled(gateway, TEXT, PROMPT)).seed for _ in range(4)}
    assert len(seeds) == 4


async def test_negative_seeds_and_top_k_have_a_meaning(gateway: Gateway) -> None:
    sampling = await sampled(gateway, TEXT, PROMPT | {"seed": -1, "top_k": -1})
    assert (sampling.seed, sampling.top_k) == (2**64 - 1, 0)


async def test_the_newer_name_of_max_tokens_wins(gateway: Gateway) -> None:
    sampling = await sampled(gateway, CHAT, HELLO | {"max_completion_tokens": 3})
    assert sampling.max_tokens == 3


@pytest.mark.parametrize(
    ("asked", "expected"),
    [({"logprobs": True, "top_logprobs": 2}, 2), ({"logprobs": True}, 0), ({}, None),
     ({"logprobs": False, "top_logprobs": 0}, None)],
)  # fmt: skip
async def test_chat_logprobs(gateway: Gateway, asked: dict[str, Any], expected: int | None) -> None:
    assert (await sampled(gateway, CHAT, HELLO | asked)).logprobs == expected


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (CHAT, HELLO | {"stream_options": {}}, "stream_options"),
        (CHAT, HELLO | {"stream": False, "stream_options": {"include_usage": True}},
         "stream_options"),
        (CHAT, HELLO | {"stream": True, "stream_options": {"include_usage": 1}},
         "stream_options.include_usage"),
        (CHAT, HELLO | {"stream": True, "return_ledger": True}, "return_ledger"),
        (TEXT, PROMPT | {"stream": True, "return_ledger": True, "stream_options": {}},
         "return_ledger"),
        (CHAT, HELLO | {"logprobs": False, "top_logprobs": 2}, "top_logprobs"),
        (TEXT, PROMPT | {"echo": True, "logprobs": 1}, "logprobs"),
        (TEXT, PROMPT | {"echo": True, "max_tokens": 0}, "max_tokens"),
        (TEXT, PROMPT | {"max_tokens": 0}, "max_tokens"),
        (CHAT, HELLO | {"continue_final_message": True, "add_generation_prompt": True},
         "continue_final_message"),
    ],
)  # fmt: skip
async def test_fields_that_exclude_each_other(
    gateway: Gateway, path: str, body: dict[str, Any], param: str
) -> None:
    status, answer = await post(gateway, path, body)
    assert status == 400
    assert answer["error"]["param"] == param


async def test_context_overflow_is_found_before_any_worker_is_asked() -> None:
    async with running_gateway(with_context(32)) as gateway:
        for asked, requested in ((31, 33), (None, 41)):
            prompt = "hi" if asked is not None else "x" * 40
            body = {"prompt": prompt, "max_tokens": asked}
            status, answer = await post(gateway, TEXT, body)
            assert status == 400
            error = answer["error"]
            assert error["code"] == "context_length_exceeded"
            assert error["param"] == "prompt"
            assert error["message"].startswith(
                "This model's maximum context length is 32 tokens. However, you requested "
                f"{requested} tokens"
            )
        assert gateway.cluster.submits.empty()


async def test_the_whole_context_may_be_used() -> None:
    async with running_gateway(with_context(32)) as gateway:
        cluster = gateway.cluster
        cluster.script = lambda asked: cluster.play(asked, [[65]], FinishReason.LENGTH)
        assert (await sampled(gateway, TEXT, PROMPT | {"max_tokens": 30})).max_tokens == 30
        assert (await sampled(gateway, TEXT, {"prompt": "x" * 31})).max_tokens == 1


async def test_another_model_is_not_found(gateway: Gateway) -> None:
    status, answer = await post(gateway, CHAT, HELLO | {"model": "gpt-9"})
    assert status == 404
    assert answer["error"]["code"] == "model_not_found"
