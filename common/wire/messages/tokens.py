"""Writer to gateway: the tokens, past the router."""

from dataclasses import dataclass

from common.domain.ids import AttemptKey
from common.domain.ledger import Ledger


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log-probabilities at one position."""

    chosen: float
    top_ids: bytes
    """int32 column, most likely first."""
    top: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """What one engine step gave the streams of one gateway. Columns of equal length, a row a
    choice; only `tokens` and `logprobs` are as long as the sum of `counts`."""

    requests: tuple[str, ...]
    attempts: bytes
    choices: bytes
    starts: bytes
    """Index in the choice's output of the row's first token: a gap or a repeat is noticed."""
    counts: bytes
    tokens: bytes
    finishes: bytes
    """One byte a row: 0, or the FinishReason with which the choice ends here."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """Empty, or one per token of the rows that asked for them, in order."""
    with_logprobs: bytes = b""
    """One byte a row: 1 if its tokens have entries in `logprobs`."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Every choice has ended. Resent until acknowledged."""

    key: AttemptKey
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class FinishAck:
    """Gateway to writer: forget the ids of this attempt."""

    key: AttemptKey
