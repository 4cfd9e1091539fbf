"""The official client, as users have it."""

import asyncio
from collections.abc import AsyncIterator

import openai
import pytest

from common.domain.errors import ErrorCode
from common.domain.finish import FinishReason
from common.wire.messages.submit import Failed, Submit
from tests.support.gateway import Gateway, row, running_gateway

HI: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with running_gateway() as running:
        cluster = running.cluster
        cluster.script = lambda asked: cluster.play(
            asked, ["héllo".encode()] * asked.sampling.n, FinishReason.LENGTH
        )
        yield running


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=gateway.url + "/v1", api_key="none") as made:
        yield made


async def test_chat(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="mock", messages=HI, max_tokens=6, n=2, logprobs=True, top_logprobs=1, seed=1
    )
    assert [choice.message.content for choice in answer.choices] == ["héllo", "héllo"]
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 16
    assert answer.choices[0].logprobs is not None
    assert answer.choices[0].logprobs.content is not None
    assert len(answer.choices[0].logprobs.content) == 6


async def test_chat_stream(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="mock",
        messages=HI,
        max_tokens=6,
        stream=True,
        stream_options={"include_usage": True},
    )
    text, usage = "", None
    async for chunk in stream:
        usage = chunk.usage or usage
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert text == "héllo"
    assert usage is not None
    assert usage.completion_tokens == 6


async def test_completions_and_models(client: openai.AsyncOpenAI) -> None:
    answer = await client.completions.create(model="mock", prompt=[104, 105], max_tokens=6)
    assert answer.choices[0].text == "héllo"
    assert [model.id async for model in client.models.list()] == ["mock"]
    assert (await client.models.retrieve("mock")).id == "mock"


async def test_the_blocking_client_in_a_thread(gateway: Gateway) -> None:
    def ask() -> str | None:
        with openai.OpenAI(base_url=gateway.url + "/v1", api_key="none") as client:
            answer = client.chat.completions.create(model="mock", messages=HI, max_tokens=6)
            return answer.choices[0].message.content

    assert await asyncio.to_thread(ask) == "héllo"


async def test_errors_have_their_classes(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        await client.chat.completions.create(model="other", messages=HI)
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(model="mock", messages=HI, max_tokens=9999)
    assert caught.value.code == "context_length_exceeded"


async def test_a_503_is_retried_and_one_that_will_not_pass_is_not(
    gateway: Gateway, client: openai.AsyncOpenAI
) -> None:
    answers = gateway.cluster.script
    assert answers is not None
    tries: list[Submit] = []

    def full_once(asked: Submit) -> None:
        tries.append(asked)
        if len(tries) == 1:
            failure = Failed(asked.key, ErrorCode.OVERLOADED, "full", True, 10)
            gateway.cluster.from_router(failure)
        else:
            answers(asked)

    gateway.cluster.script = full_once
    assert await client.chat.completions.create(model="mock", messages=HI)
    assert len(tries) == 2

    def never(asked: Submit) -> None:
        tries.append(asked)
        gateway.cluster.fail(asked, ErrorCode.CAPACITY)

    tries.clear()
    gateway.cluster.script = never
    with pytest.raises(openai.InternalServerError):
        await client.chat.completions.create(model="mock", messages=HI)
    assert len(tries) == 1


async def test_a_failure_in_mid_stream_raises(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    def script(asked: Submit) -> None:
        gateway.cluster.place(asked)
        gateway.cluster.from_worker(row(asked.key, [65]))
        failure = Failed(asked.key, ErrorCode.WORKER_LOST, "gone")
        asyncio.get_running_loop().call_later(0.1, gateway.cluster.from_worker, failure)

    gateway.cluster.script = script
    stream = await client.chat.completions.create(model="mock", messages=HI, stream=True)
    with pytest.raises(openai.APIError, match="gone"):
        async for _ in stream:
            pass
