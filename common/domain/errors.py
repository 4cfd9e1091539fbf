"""The one exception tree.

    ServingError
    ├── InvalidRequest      the client's fault; names the parameter
    │   └── ContextOverflow
    ├── ModelNotFound
    ├── Overloaded          try again later; carries the delay
    ├── DeadlineExceeded
    ├── WorkerLost          the process that served the request is gone
    ├── StoreUnavailable    the kvstore cannot answer: recompute
    ├── BlockCorrupt        a copy failed its check: a miss
    ├── ProtocolError       a peer's bytes make no sense: drop the peer
    └── InvalidTransition   a bug of ours: an event with no row in its state table

Across the wire an error is `Failed(code, message, retryable)`; only the gateway maps codes to HTTP.
Caught at five places: the request boundary, the wire boundary, the store client, a tier's I/O, and
`run()`. Anything else ends the process, and the supervisor restarts it.
"""

from enum import IntEnum


class ErrorCode(IntEnum):
    """The codes that cross the wire. Numbers are never reused."""

    INTERNAL = 1
    INVALID_REQUEST = 2
    CONTEXT_OVERFLOW = 3
    MODEL_NOT_FOUND = 4
    OVERLOADED = 5
    NO_WORKER = 6
    DEADLINE = 7
    WORKER_LOST = 8
    CAPACITY = 9
    """The request fits the model but no worker's pool."""
    CANCELLED = 10
    ROUTER_LOST = 11


class ServingError(Exception):
    """Base of everything we raise on purpose."""

    code = ErrorCode.INTERNAL
    retryable = False


class InvalidRequest(ServingError):
    code = ErrorCode.INVALID_REQUEST

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class ContextOverflow(InvalidRequest):
    code = ErrorCode.CONTEXT_OVERFLOW


class ModelNotFound(ServingError):
    code = ErrorCode.MODEL_NOT_FOUND


class Overloaded(ServingError):
    code = ErrorCode.OVERLOADED
    retryable = True

    def __init__(self, message: str, retry_after_ms: int = 1000) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class DeadlineExceeded(ServingError):
    code = ErrorCode.DEADLINE


class WorkerLost(ServingError):
    code = ErrorCode.WORKER_LOST
    retryable = True


class StoreUnavailable(ServingError):
    retryable = True


class BlockCorrupt(ServingError):
    retryable = True


class ProtocolError(ServingError):
    pass


class InvalidTransition(ServingError):
    """Carries the record's story so that the log line explains itself."""
