"""Codes to HTTP: a status for each, and honest advice about retrying."""

import pytest

from common.domain.errors import (
    ContextOverflow,
    DeadlineExceeded,
    ErrorCode,
    InvalidRequest,
    Overloaded,
    ServingError,
)
from services.gateway.exchange import AttemptLost
from services.gateway.http.errors import HttpProblem, http_error
from services.gateway.streams import Failure


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_has_a_status(code: ErrorCode) -> None:
    error = http_error(AttemptLost(Failure(code, "why")))
    assert 400 <= error.status < 600
    assert error.body()["error"] == {
        "message": "why", "type": error.type, "param": None, "code": error.code
    }  # fmt: skip
    assert error.frame()["error"] == {
        "message": "why", "type": error.type, "param": None, "code": error.status
    }  # fmt: skip


@pytest.mark.parametrize("code", ErrorCode)
def test_a_server_error_says_whether_to_retry(code: ErrorCode) -> None:
    error = http_error(AttemptLost(Failure(code, "why", retryable=True, retry_after_ms=1001)))
    final = http_error(AttemptLost(Failure(code, "why")))
    if error.status < 500:
        assert error.headers == final.headers == {}
        return
    assert error.headers == {
        "Retry-After": "2", "retry-after-ms": "1001", "x-should-retry": "true"
    }  # fmt: skip
    assert final.headers == {"x-should-retry": "false"}


@pytest.mark.parametrize(
    ("error", "status", "code", "param"),
    [
        (InvalidRequest("m", "stop"), 400, None, "stop"),
        (ContextOverflow("m", "prompt"), 400, "context_length_exceeded", "prompt"),
        (Overloaded("m", 300), 503, "server_is_overloaded", None),
        (DeadlineExceeded("m"), 504, "deadline_exceeded", None),
        (ServingError("m"), 500, "internal_error", None),
        (HttpProblem(405, "m", allow="POST"), 405, None, None),
    ],
)
def test_our_own_exceptions(
    error: ServingError, status: int, code: str | None, param: str | None
) -> None:
    answer = http_error(error)
    assert (answer.status, answer.code, answer.param) == (status, code, param)


def test_a_short_wait_is_never_zero_seconds() -> None:
    assert http_error(Overloaded("m", 300)).headers["Retry-After"] == "1"
