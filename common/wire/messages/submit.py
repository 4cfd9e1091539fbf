"""Gateway and router: one attempt from Submit to Placed or Failed, and Cancel at any time."""

from dataclasses import dataclass

from common.domain.errors import ErrorCode
from common.domain.ids import AttemptKey
from common.domain.peer import PeerRef
from common.domain.sampling import SamplingParams


@dataclass(frozen=True, slots=True)
class Submit:
    key: AttemptKey
    prompt: bytes
    """int32 column of token ids."""
    units: bytes
    """Hash column: one per whole 16-token unit of the prompt."""
    sampling: SamplingParams
    priority: int = 0
    deadline_ms: int = 0
    """From now; 0 is none. Durations, because clocks of two hosts differ."""
    root: bytes = b""
    """Parent hash of the first unit (common.kv.hashing.chain_root): names what is generated, too.
    Empty: cache nothing of this request."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The plan is in force: the writer has accepted. The gateway watches `writer` from here on."""

    key: AttemptKey
    writer: PeerRef
    prefill: str = ""
    """Name of the prefill worker; empty when the writer computes the prompt itself."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt is over without a result. Sent by whoever notices, towards the gateway."""

    key: AttemptKey
    code: ErrorCode
    message: str
    retryable: bool = False
    retry_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class Cancel:
    """Drop this attempt in whatever state it is. Follows the links the work took, in order."""

    key: AttemptKey
