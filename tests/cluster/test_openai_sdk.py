"""The official OpenAI client, blocking and async, against a running cluster with the real model."""

from collections.abc import AsyncIterator, Iterator

import openai
import pytest

from tests.support.live import Live

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

MODEL = "SmolLM2-135M-Instruct"
ASK: list[openai.types.chat.ChatCompletionMessageParam] = [
    {"role": "user", "content": "Name a color."}
]
TOKENS = 8


@pytest.fixture(scope="module")
def client(real: Live) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=real.url + "/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture
async def async_client(real: Live) -> AsyncIterator[openai.AsyncOpenAI]:
    url = real.url + "/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def answer(client: openai.OpenAI) -> openai.types.chat.ChatCompletion:
    return client.chat.completions.create(
        model=MODEL,
        messages=ASK,
        max_tokens=TOKENS,
        temperature=0,
        logprobs=True,
        top_logprobs=3,
        extra_body={"ignore_eos": True},
    )


def test_chat(answer: openai.types.chat.ChatCompletion) -> None:
    assert answer.model == MODEL
    assert answer.object == "chat.completion"
    (choice,) = answer.choices
    assert choice.message.role == "assistant"
    assert choice.message.content
    assert choice.finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == TOKENS
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + TOKENS


def test_logprobs_spell_the_answer(answer: openai.types.chat.ChatCompletion) -> None:
    (choice,) = answer.choices
    assert choice.logprobs is not None
    tokens = choice.logprobs.content
    assert tokens is not None
    spelled = b"".join(bytes(token.bytes or []) for token in tokens)
    assert spelled.decode() == choice.message.content
    for token in tokens:
        assert bytes(token.bytes or []).decode(errors="replace") == token.token
        assert token.logprob <= 0
        values = [rival.logprob for rival in token.top_logprobs]
        assert len(values) == 3
        assert values == sorted(values, reverse=True)
        # Greedy: what was chosen is the most likely.
        assert token.top_logprobs[0].token == token.token
        assert token.top_logprobs[0].logprob == pytest.approx(token.logprob, abs=1e-6)


async def test_a_stream_says_the_same_and_ends_with_usage(
    async_client: openai.AsyncOpenAI, answer: openai.types.chat.ChatCompletion
) -> None:
    stream = await async_client.chat.completions.create(
        model=MODEL,
        messages=ASK,
        max_tokens=TOKENS,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )
    chunks = [chunk async for chunk in stream]
    *chunks, last = chunks
    assert last.choices == []
    assert last.usage is not None
    assert answer.usage is not None
    assert last.usage.prompt_tokens == answer.usage.prompt_tokens
    assert last.usage.completion_tokens == TOKENS
    assert all(chunk.usage is None for chunk in chunks)
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == answer.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == ["length"]


def test_two_choices_in_one_piece_and_in_a_stream(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(
        model=MODEL, messages=ASK, max_tokens=4, n=2, seed=5, temperature=0.9, top_p=0.9
    )
    assert [choice.index for choice in whole.choices] == [0, 1]
    stream = client.chat.completions.create(
        model=MODEL, messages=ASK, max_tokens=4, n=2, seed=5, temperature=0.9, top_p=0.9,
        stream=True,
    )  # fmt: skip
    texts = {0: "", 1: ""}
    for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert [texts[0], texts[1]] == [choice.message.content for choice in whole.choices]


def test_stop_as_a_text_and_as_a_list(
    client: openai.OpenAI, answer: openai.types.chat.ChatCompletion
) -> None:
    text = answer.choices[0].message.content
    assert text is not None
    stop = text[len(text) // 2 :][:3]
    for given in (stop, ["never said", stop]):
        cut = client.chat.completions.create(
            model=MODEL, messages=ASK, max_tokens=TOKENS, temperature=0, stop=given
        )
        assert cut.choices[0].message.content == text[: text.index(stop)]
        assert cut.choices[0].finish_reason == "stop"


async def test_completions_take_texts_and_token_ids(
    async_client: openai.AsyncOpenAI, real: Live
) -> None:
    text = "The capital of France is"
    ids = real.post("/tokenize", {"prompt": text})["tokens"]
    said = [
        await async_client.completions.create(
            model=MODEL, prompt=prompt, max_tokens=3, temperature=0
        )
        for prompt in (text, ids, [ids, ids])
    ]
    texts = [[choice.text for choice in completion.choices] for completion in said]
    assert texts[0] == texts[1]
    assert texts[2] == texts[0] * 2
    assert said[0].usage is not None
    assert said[0].usage.prompt_tokens == len(ids)


async def test_models(async_client: openai.AsyncOpenAI, client: openai.OpenAI) -> None:
    assert [model.id async for model in async_client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).owned_by == "twinfleet"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4")


def test_errors_have_their_classes_and_codes(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-4", messages=ASK)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model=MODEL, messages=ASK, temperature=3)
    assert wrong.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as unbuilt:
        client.chat.completions.create(
            model=MODEL, messages=ASK, response_format={"type": "json_object"}
        )
    assert unbuilt.value.param == "response_format"
    with pytest.raises(openai.BadRequestError) as overflow:
        client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=100_000)
    assert overflow.value.code == "context_length_exceeded"


async def test_async_errors_too(async_client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as wrong:
        await async_client.completions.create(model=MODEL, prompt=[1, 10**6], max_tokens=1)
    assert wrong.value.param == "prompt"
    with pytest.raises(openai.NotFoundError):
        await async_client.completions.create(model="gpt-4", prompt="hi")
