"""Columns to rows, and nothing else than whole columns."""

from dataclasses import replace

import pytest

from common.domain.errors import ProtocolError
from common.domain.finish import FinishReason
from common.domain.ids import AttemptKey, RequestId
from common.wire.columns import pack_i32
from common.wire.messages.tokens import TokenBatch
from services.gateway.token_rows import TokenRow, token_rows
from tests.support.gateway import logprobs_of

BATCH = TokenBatch(
    requests=("a", "b", "c"),
    attempts=pack_i32([1, 2, 1]),
    choices=pack_i32([0, 1, 0]),
    starts=pack_i32([0, 5, 9]),
    counts=pack_i32([1, 2, 0]),
    tokens=pack_i32([10, 20, 21]),
    finishes=bytes([0, 1, 2]),
    logprobs=(logprobs_of(20), logprobs_of(21)),
    with_logprobs=bytes([0, 1, 0]),
)


def key(name: str, attempt: int) -> AttemptKey:
    return AttemptKey(RequestId(name), attempt)


def test_each_row_gets_its_own_tokens_and_logprobs() -> None:
    assert token_rows(BATCH) == [
        TokenRow(key("a", 1), 0, 0, (10,), None, ()),
        TokenRow(key("b", 2), 1, 5, (20, 21), FinishReason.STOP, BATCH.logprobs),
        TokenRow(key("c", 1), 0, 9, (), FinishReason.LENGTH, ()),
    ]


def test_a_batch_without_logprobs_needs_no_column_for_them() -> None:
    rows = token_rows(replace(BATCH, logprobs=(), with_logprobs=b""))
    assert [row.logprobs for row in rows] == [(), (), ()]


@pytest.mark.parametrize(
    "broken",
    [
        replace(BATCH, attempts=pack_i32([1, 2])),
        replace(BATCH, choices=pack_i32([1, 2, 3, 4])),
        replace(BATCH, starts=b"\0" * 11),
        replace(BATCH, starts=pack_i32([0, -1, 0])),
        replace(BATCH, counts=pack_i32([1, 1, 0])),
        replace(BATCH, counts=pack_i32([4, -1, 0])),
        replace(BATCH, tokens=pack_i32([1])),
        replace(BATCH, finishes=bytes([0, 1])),
        replace(BATCH, finishes=bytes([0, 1, 9])),
        replace(BATCH, with_logprobs=bytes([0, 1])),
        replace(BATCH, with_logprobs=bytes([1, 1, 0])),
        replace(BATCH, logprobs=()),
        replace(BATCH, requests=("a",)),
    ],
)
def test_uneven_columns_are_a_protocol_error(broken: TokenBatch) -> None:
    with pytest.raises(ProtocolError):
        token_rows(broken)
