"""Faults that users of other serving systems met, tried end to end where no model is needed.

Workers of the small cluster have sixteen blocks of 32 tokens, so whatever leaks is missed soon.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from common.domain.sampling import SamplingParams
from common.engine.mock import VOCAB, expected_output
from tests.support.live import TOPOLOGIES, Json, Live, live_cluster
from tests.support.streams import mock_output, mock_prompt

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
BLOCK = 32
POOL_BLOCKS = 16


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    topology = str(TOPOLOGIES / "small-mock-1p1d.toml")
    with live_cluster(tmp_path_factory.mktemp("run"), topology) as live:
        yield live


def check_serves(live: Live, seed: int = 0) -> None:
    prompt = mock_prompt(40, seed)
    assert live.complete(prompt, 5)["choices"][0]["token_ids"] == mock_output(prompt, 5)
    live.wait_until_nothing_is_held(5)


@pytest.mark.parametrize(
    ("options", "asked"), [({"include_usage": True}, True), ({"include_usage": False}, False),
                           ({}, False), (None, False)]
)  # fmt: skip
def test_a_stream_ends_with_usage_when_it_was_asked_for(
    small: Live, options: Json | None, asked: bool
) -> None:
    for path, prompt in (
        (COMPLETIONS, {"prompt": "hello"}),
        (CHAT, {"messages": [{"role": "user", "content": "hello"}]}),
    ):
        body = prompt | {"max_tokens": 3, "stream_options": options}
        *chunks, last = small.events(path, body)
        assert not any(chunk.get("usage") for chunk in chunks)
        assert all(chunk["choices"] for chunk in chunks)
        if asked:
            assert last["choices"] == []
            assert last["usage"]["completion_tokens"] == 3
            prompt_tokens = last["usage"]["prompt_tokens"]
            assert last["usage"]["total_tokens"] == prompt_tokens + 3
        else:
            assert last["choices"]
            assert not last.get("usage")


@pytest.mark.parametrize("prefix", ["cold", "warm"])
def test_echo_is_answered_or_refused_and_the_server_lives(small: Live, prefix: str) -> None:
    prompt = "x" * 70
    if prefix == "warm":
        small.post(COMPLETIONS, {"prompt": prompt, "max_tokens": 1})
    for tokens, logprobs, stream in product((0, 1), (None, 1), (False, True)):
        body = {"prompt": prompt, "echo": True, "max_tokens": tokens, "logprobs": logprobs}
        if tokens == 0 or logprobs is not None:
            refused = small.ask(COMPLETIONS, body | {"stream": stream})
            assert refused.status == 400
            assert refused.body["error"]["param"] in ("max_tokens", "logprobs")
        elif stream:
            events = small.events(COMPLETIONS, body)
            text = "".join(event["choices"][0]["text"] for event in events)
            assert text.startswith(prompt)
            assert len(text) == len(prompt) + 1
        else:
            text = small.post(COMPLETIONS, body)["choices"][0]["text"]
            assert text.startswith(prompt)
            assert len(text) == len(prompt) + 1
    check_serves(small)


@pytest.mark.parametrize("prompt", ["", [], [""], [[]], ["a", ""], None])
def test_an_empty_prompt_is_refused_and_the_next_request_served(
    small: Live, prompt: object
) -> None:
    refused = small.ask(COMPLETIONS, {"prompt": prompt, "max_tokens": 3})
    assert refused.status == 400
    assert refused.body["error"]["param"] == "prompt"
    check_serves(small)


@pytest.mark.parametrize("content", ["", None, []])
def test_an_empty_message_is_a_prompt_of_the_template_alone(small: Live, content: object) -> None:
    refused = small.ask(CHAT, {"messages": [], "max_tokens": 3})
    assert refused.status == 400
    assert refused.body["error"]["param"] == "messages"
    message = {"role": "user", "content": content}
    answer = small.post(CHAT, {"messages": [message], "max_tokens": 3})
    assert answer["usage"]["prompt_tokens"] > 0
    assert answer["usage"]["completion_tokens"] == 3
    check_serves(small)


def test_ids_outside_the_vocabulary_are_refused_and_neighbours_go_on(fleet: Live) -> None:
    neighbour = mock_prompt(50, 3)
    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(fleet.complete, neighbour, 60, cache_salt=s) for s in "abc"]
        for outside in (VOCAB, VOCAB + 1, -1, 2**31):
            for field, value in (
                ("prompt", [40, outside, 41]),
                ("prompt", [[40], [outside]]),
                ("stop_token_ids", [outside]),
                ("logit_bias", {str(outside): 1.0}),
            ):
                body = {"prompt": "hi", "max_tokens": 3, field: value}
                refused = fleet.ask(COMPLETIONS, body)
                assert refused.status == 400, (field, outside)
                assert refused.body["error"]["param"].startswith(field)
        assert not all(future.done() for future in running)
        for future in running:
            ids = future.result()["choices"][0]["token_ids"]
            assert ids == mock_output(neighbour, 60)
    fleet.wait_until_nothing_is_held(5)


@pytest.mark.parametrize("tokens", [1, 2])
@pytest.mark.parametrize("length", [5, BLOCK, 3 * BLOCK + 1])
def test_as_many_tokens_as_asked_for_and_one_without_decode(
    small: Live, tokens: int, length: int
) -> None:
    prompt = mock_prompt(length, 70 + tokens)
    steps = small.status("decode-0")["steps"]
    answer = small.complete(prompt, tokens)
    assert answer["choices"][0]["token_ids"] == mock_output(prompt, tokens)
    assert answer["usage"]["completion_tokens"] == tokens
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "return_token_ids": True}
    events = small.events(COMPLETIONS, body)
    ids = [token for event in events for token in event["choices"][0]["token_ids"]]
    assert ids == mock_output(prompt, tokens)
    (writer,) = {stream["writer"].split("/")[0] for stream in answer["streams"]}
    assert writer == ("prefill-0" if tokens == 1 else "decode-0")
    assert (small.status("decode-0")["steps"] == steps) == (tokens == 1)
    small.wait_until_nothing_is_held(5)


def test_many_choices_release_every_hold_of_their_prompt(small: Live) -> None:
    def three(seed: int) -> None:
        prompt = mock_prompt(BLOCK + seed % 40, seed)
        answer = small.complete(prompt, 6, n=3, temperature=1.0, seed=seed)
        for choice in answer["choices"]:
            params = SamplingParams(seed=seed, max_tokens=6, n=3, temperature=1.0)
            assert choice["token_ids"] == expected_output(prompt, params, choice["index"])
        assert len(answer["choices"]) == 3

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(three, range(20)))
    small.wait_until_nothing_is_held(5)
    for name in ("prefill-0", "decode-0"):
        small.admin(name, "POST /reset_prefix_cache")
        small.wait_until(name, lambda status: not status["blocks_cached"])
    check_serves(small)


def test_choices_that_outgrow_the_pool_take_turns(small: Live) -> None:
    prompt = mock_prompt(8 * BLOCK + 5, 5)
    answer = small.complete(prompt, 150, n=4, temperature=1.0, seed=9)
    params = SamplingParams(seed=9, max_tokens=150, n=4, temperature=1.0)
    for choice in answer["choices"]:
        assert choice["token_ids"] == expected_output(prompt, params, choice["index"])
    assert answer["streams"][0]["ledger"]["preemptions"] > 0
    small.wait_until_nothing_is_held(5)


def test_what_no_pool_can_hold_is_refused_at_once_and_blocks_nobody(small: Live) -> None:
    started = time.monotonic()
    long = small.ask(COMPLETIONS, {"prompt": mock_prompt((POOL_BLOCKS + 1) * BLOCK, 1)})
    assert long.status == 400
    assert long.body["error"]["code"] == "context_length_exceeded"
    # It fits the context, but each choice wants a block of its own for the tail.
    wide = small.ask(
        COMPLETIONS, {"prompt": mock_prompt(14 * BLOCK + 5, 1), "n": 8, "max_tokens": 3}
    )
    assert wide.status == 503
    assert wide.body["error"]["code"] == "insufficient_capacity"
    assert "KV blocks" in wide.body["error"]["message"]
    assert wide.headers["x-should-retry"] == "false"
    assert time.monotonic() - started < 2
    check_serves(small)
