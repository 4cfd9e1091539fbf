"""The tree of errors: every one says what crosses the wire."""

import pytest

from common.domain.errors import (
    BlockCorrupt,
    ContextOverflow,
    DeadlineExceeded,
    ErrorCode,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    ProtocolError,
    ServingError,
    StoreUnavailable,
    WorkerLost,
)


def test_numbers_of_codes_are_never_reused() -> None:
    assert {code.name: code.value for code in ErrorCode} == {
        "INTERNAL": 1,
        "INVALID_REQUEST": 2,
        "CONTEXT_OVERFLOW": 3,
        "MODEL_NOT_FOUND": 4,
        "OVERLOADED": 5,
        "NO_WORKER": 6,
        "DEADLINE": 7,
        "WORKER_LOST": 8,
        "CAPACITY": 9,
        "CANCELLED": 10,
        "ROUTER_LOST": 11,
    }


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (InvalidRequest("x"), ErrorCode.INVALID_REQUEST, False),
        (ContextOverflow("x"), ErrorCode.CONTEXT_OVERFLOW, False),
        (ModelNotFound("x"), ErrorCode.MODEL_NOT_FOUND, False),
        (Overloaded("x"), ErrorCode.OVERLOADED, True),
        (DeadlineExceeded("x"), ErrorCode.DEADLINE, False),
        (WorkerLost("x"), ErrorCode.WORKER_LOST, True),
        (StoreUnavailable("x"), ErrorCode.INTERNAL, True),
        (BlockCorrupt("x"), ErrorCode.INTERNAL, True),
        (ProtocolError("x"), ErrorCode.INTERNAL, False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_code_and_retryability(error: ServingError, code: ErrorCode, retryable: bool) -> None:
    assert (error.code, error.retryable) == (code, retryable)
    assert str(error) == "x"


def test_the_parameter_and_the_delay_travel_with_the_error() -> None:
    assert ContextOverflow("too long", "messages").param == "messages"
    assert InvalidRequest("bad").param is None
    assert Overloaded("full", 250).retry_after_ms == 250
    assert Overloaded("full").retry_after_ms > 0
