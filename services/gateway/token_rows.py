"""The rows of a TokenBatch, checked: a peer's columns are untrusted.

Raises ProtocolError unless every column has the length that the others imply.
"""

from dataclasses import dataclass

from common.domain.errors import ProtocolError
from common.domain.finish import FinishReason
from common.domain.ids import AttemptKey, RequestId
from common.wire.columns import unpack_i32
from common.wire.messages.tokens import TokenBatch, TokenLogprobs


@dataclass(frozen=True, slots=True)
class TokenRow:
    """What one step gave one choice."""

    key: AttemptKey
    choice: int
    start: int
    tokens: tuple[int, ...]
    finish: FinishReason | None
    logprobs: tuple[TokenLogprobs, ...]


def token_rows(batch: TokenBatch) -> list[TokenRow]:
    count = len(batch.requests)
    columns = (batch.attempts, batch.choices, batch.starts, batch.counts)
    attempts, choices, starts, counts = (_column(column, count) for column in columns)
    tokens = unpack_i32(batch.tokens).tolist()
    asked = batch.with_logprobs or bytes(count)
    if len(batch.finishes) != count or len(asked) != count or sum(counts) != len(tokens):
        raise ProtocolError("token batch of uneven columns")
    if min(counts, default=0) < 0 or min(starts, default=0) < 0:
        raise ProtocolError("token batch with a negative count")
    if sum(counts[row] for row in range(count) if asked[row]) != len(batch.logprobs):
        raise ProtocolError("token batch with too many or too few log-probabilities")
    rows: list[TokenRow] = []
    at = at_logprob = 0
    for row, request in enumerate(batch.requests):
        end = at + counts[row]
        end_logprob = at_logprob + (counts[row] if asked[row] else 0)
        rows.append(
            TokenRow(
                AttemptKey(RequestId(request), attempts[row]),
                choices[row],
                starts[row],
                tuple(tokens[at:end]),
                _finish(batch.finishes[row]),
                batch.logprobs[at_logprob:end_logprob],
            )
        )
        at, at_logprob = end, end_logprob
    return rows


def _column(data: bytes, count: int) -> list[int]:
    values: list[int] = unpack_i32(data).tolist()
    if len(values) != count:
        raise ProtocolError("token batch of uneven columns")
    return values


def _finish(value: int) -> FinishReason | None:
    if value == 0:
        return None
    try:
        return FinishReason(value)
    except ValueError:
        raise ProtocolError(f"unknown finish reason {value}") from None
