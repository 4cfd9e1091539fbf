"""What one client does: a session of turns, each a request that waits for the answer before it.

Pure data, made by a workload from a seed, so that both sides of a comparison send the same. A turn
says what the client adds to the conversation; the answers between come from the server at run time.
"""

from dataclasses import dataclass
from typing import Literal

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One request. `messages` are what it adds to the session's conversation."""

    messages: tuple[Message, ...]
    max_tokens: int
    """Asked for; where the load ignores the end-of-sequence token, exactly what comes."""
    pause_s: float = 0.0
    """From the last token of the turn before to this one's scheduled time: thinking, a tool."""
    leave_after_tokens: int = 0
    """The client hangs up after so many content chunks; 0: stays to the end."""
    leave_after_s: float = 0.0
    """The client hangs up so long after sending; 0: stays to the end."""
    read_bytes_s: float = 0.0
    """How fast the client reads; 0: as fast as it can."""


@dataclass(frozen=True, slots=True)
class Session:
    turns: tuple[Turn, ...]
    at_s: float | None = None
    """When a trace says that it began, in seconds from the trace's first; None: as arrivals say."""

    def __post_init__(self) -> None:
        if not self.turns:
            raise ValueError("a session has at least one turn")
