"""Pieces of answers: numbers that JSON can hold, and what usage says."""

import math
from dataclasses import fields

import pytest

from common.domain.finish import FinishReason
from common.domain.ids import AttemptKey, Incarnation, ProcessName, RequestId
from common.domain.ledger import Ledger
from common.domain.peer import PeerRef, Role
from services.gateway.exchange import Exchange, Timing
from services.gateway.http.answer import (
    LOWEST_LOGPROB,
    Head,
    finish_name,
    finite,
    ledger_columns,
    usage,
)
from services.gateway.streams import Stream
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


def served(number: int, ledger: Ledger | None) -> Stream:
    stream = Stream(AttemptKey(RequestId(f"id-{number}"), 1), 1, 9)
    name = ProcessName(f"decode-{number}")
    stream.writer = PeerRef(name, Incarnation(1), Role.DECODE, f"mem://{name}")
    stream.prefill = "prefill-0"
    stream.ledger = ledger
    return stream


def test_the_ledger_has_every_column_and_all_who_served() -> None:
    exchange = Exchange("id", "id", "chat", Timing(0.0))
    exchange.streams = [served(1, Ledger()), served(0, Ledger())]
    shown = ledger_columns(exchange, Ledger(decode_ms=1.5, decode_steps=3), True)["ledger"]
    assert isinstance(shown, dict)
    assert shown.keys() == {column.name for column in fields(Ledger)} | {
        "prefill_worker",
        "decode_worker",
    }
    assert (shown["decode_ms"], shown["decode_steps"]) == (1.5, 3)
    assert shown["prefill_worker"] == ["prefill-0"]
    assert shown["decode_worker"] == ["decode-0", "decode-1"]


def test_a_ledger_of_which_a_part_did_not_come_is_none() -> None:
    exchange = Exchange("id", "id", "chat", Timing(0.0))
    exchange.streams = [served(0, Ledger()), served(1, None)]
    assert ledger_columns(exchange, Ledger(), True) == {"ledger": None}


def test_nobody_gets_a_ledger_unasked() -> None:
    assert ledger_columns(Exchange("id", "id", "chat", Timing(0.0)), Ledger(), False) == {}
