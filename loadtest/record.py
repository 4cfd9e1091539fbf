"""What the client saw of one request. Facts only: every measure is computed from these later.

Seconds are of the client's monotonic clock, since the run began. A record is complete when its
request has ended, whatever the end was.
"""

from dataclasses import dataclass, field
from enum import StrEnum

SETTLING = "-settling"
"""Ends the name of a load whose requests fill caches and queues before those that count."""


class Outcome(StrEnum):
    FINISHED = "finished"
    REJECTED = "rejected"
    """The server refused it before any content: an HTTP status other than 200."""
    FAILED = "failed"
    """No connection, an error in the stream, or silence until the limit."""
    CUT = "cut"
    """The stream ended without saying that it was the end."""
    LEFT = "left"
    """The client hung up, as its workload says: neither hit nor miss."""


@dataclass(slots=True)
class Record:
    """One request of one turn of one session of one load."""

    load: str
    session: int
    turn: int
    scheduled_s: float
    """When it was meant to be sent: by the arrivals, or when the turn before allowed."""
    sent_s: float = 0.0
    ended_s: float = 0.0
    outcome: Outcome = Outcome.FAILED
    chunks_s: list[float] = field(default_factory=list)
    """When each chunk with content came. A chunk without (the role, the end, usage) is none."""
    chunk_tokens: list[int] = field(default_factory=list)
    """Tokens of each of those chunks, where the server counts them as it goes; else empty."""
    status: int = 0
    error: str = ""
    finish: str = ""
    """The server's finish_reason."""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """These three as the server's usage says; None where it says nothing."""
    asked_tokens: int = 0
    asked_digest: str = ""
    """Of the conversation: both sides of a comparison were asked the same where it is equal."""
    request_id: str = ""
    text_digest: str = ""
    """Of the whole answer: equal prompts with temperature 0 should have equal ones."""
    server: dict[str, object] = field(default_factory=dict)
    """What the server says of this request: our ledger, or vLLM's metrics."""

    @property
    def counts(self) -> bool:
        return not self.load.endswith(SETTLING)
