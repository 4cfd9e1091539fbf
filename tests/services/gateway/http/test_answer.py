"""Pieces of answers: numbers that JSON can hold, and what usage says."""

import math

import pytest

from common.domain.finish import FinishReason
from common.domain.ledger import Ledger
from services.gateway.exchange import Exchange, Timing
from services.gateway.http.answer import LOWEST_LOGPROB, Head, finish_name, finite, usage
from services.gateway.text_output import Finish


@pytest.mark.parametrize(
    ("logprob", "shown"),
    [(-0.5, -0.5), (0.0, 0.0), (-math.inf, LOWEST_LOGPROB), (math.nan, LOWEST_LOGPROB),
     (-1e30, LOWEST_LOGPROB)],
)  # fmt: skip
def test_logprobs_are_finite(logprob: float, shown: float) -> None:
    assert finite(logprob) == shown


def test_finish_names() -> None:
    assert finish_name(None) is None
    assert finish_name(Finish(FinishReason.STOP, "x")) == "stop"
    assert finish_name(Finish(FinishReason.LENGTH)) == "length"


@pytest.mark.parametrize(("cached", "shown"), [(0, 0), (16, 16), (99, 20)])
def test_usage_never_counts_more_cached_than_prompt(cached: int, shown: int) -> None:
    exchange = Exchange("id", "id", "chat", Timing(0.0), prompt_tokens=20)
    ledger = Ledger(cached_device_tokens=cached)
    assert usage(exchange, ledger) == {
        "prompt_tokens": 20,
        "completion_tokens": 0,
        "total_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": shown},
    }


def test_usage_says_nothing_of_the_cache_while_the_request_runs() -> None:
    exchange = Exchange("id", "id", "chat", Timing(0.0), prompt_tokens=20)
    assert "prompt_tokens_details" not in usage(exchange, None)


def test_the_head_is_in_every_chunk() -> None:
    chunk = Head("chatcmpl-1", 7, "m").wrap("chat.completion.chunk", [])
    assert list(chunk) == ["id", "object", "created", "model", "choices"]
