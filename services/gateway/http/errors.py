"""Errors as HTTP: the one place that maps codes to a status, a body and retry headers.

The body is OpenAI's: {"error": {"message", "type", "param", "code"}}. Clients retry any 5xx unless
told otherwise, so an error that will come again says `x-should-retry: false`, and one that may pass
says when to come back.
"""

from dataclasses import dataclass, field

from common.domain.errors import ErrorCode, InvalidRequest, Overloaded, ServingError
from services.gateway.exchange import AttemptLost

DEFAULT_RETRY_AFTER_MS = 1000
INVALID = "invalid_request_error"
SERVER = "server_error"
OVERLOADED = "overloaded_error"


@dataclass(frozen=True, slots=True)
class _Meaning:
    status: int
    type: str
    code: str | None


_MEANINGS: dict[ErrorCode, _Meaning] = {
    ErrorCode.INTERNAL: _Meaning(500, SERVER, "internal_error"),
    ErrorCode.INVALID_REQUEST: _Meaning(400, INVALID, None),
    ErrorCode.CONTEXT_OVERFLOW: _Meaning(400, INVALID, "context_length_exceeded"),
    ErrorCode.MODEL_NOT_FOUND: _Meaning(404, INVALID, "model_not_found"),
    ErrorCode.OVERLOADED: _Meaning(503, OVERLOADED, "server_is_overloaded"),
    ErrorCode.NO_WORKER: _Meaning(503, OVERLOADED, "server_is_overloaded"),
    ErrorCode.DEADLINE: _Meaning(504, SERVER, "deadline_exceeded"),
    ErrorCode.WORKER_LOST: _Meaning(503, SERVER, "worker_lost"),
    ErrorCode.CAPACITY: _Meaning(503, SERVER, "insufficient_capacity"),
    ErrorCode.CANCELLED: _Meaning(503, SERVER, "cancelled"),
    ErrorCode.ROUTER_LOST: _Meaning(503, OVERLOADED, "server_is_overloaded"),
}


class HttpProblem(ServingError):
    """A request that is wrong as HTTP: path, method, size, media type."""

    def __init__(
        self, status: int, message: str, code: str | None = None, allow: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.text_code = code
        self.allow = allow


@dataclass(frozen=True, slots=True)
class HttpError:
    status: int
    type: str
    code: str | None
    message: str
    param: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, object]:
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "code": self.code,
            }
        }

    def frame(self) -> dict[str, object]:
        """The same inside a stream, where no status line can carry the number any more."""
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "code": self.status,
            }
        }


CRASHED = HttpError(
    500, SERVER, "internal_error", "internal error", headers={"x-should-retry": "false"}
)


def http_error(error: ServingError) -> HttpError:
    if isinstance(error, HttpProblem):
        headers = {} if error.allow is None else {"Allow": error.allow}
        return HttpError(error.status, INVALID, error.text_code, str(error), headers=headers)
    meaning = _MEANINGS[error.code]
    param = error.param if isinstance(error, InvalidRequest) else None
    headers = _retry_headers(error, meaning.status)
    return HttpError(meaning.status, meaning.type, meaning.code, str(error), param, headers)


def _retry_headers(error: ServingError, status: int) -> dict[str, str]:
    if status < 500:
        return {}
    if not error.retryable:
        return {"x-should-retry": "false"}
    after_ms = _retry_after_ms(error) or DEFAULT_RETRY_AFTER_MS
    return {
        # Whole seconds, never early.
        "Retry-After": str(-(-after_ms // 1000)),
        "retry-after-ms": str(after_ms),
        "x-should-retry": "true",
    }


def _retry_after_ms(error: ServingError) -> int:
    if isinstance(error, AttemptLost):
        return max(0, error.failure.retry_after_ms)
    return error.retry_after_ms if isinstance(error, Overloaded) else 0
