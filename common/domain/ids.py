"""Names of things that cross processes.

A *request* is what a client asked for. An *attempt* is one try to serve it; only the gateway mints
attempts, and every message about one carries both, so that late messages of an old try are dropped.
A process is named by its role instance (`decode-0`) and its *incarnation*, a number drawn anew at
each start: a message meant for a dead process is refused by its successor.
"""

from dataclasses import dataclass
from typing import NewType

RequestId = NewType("RequestId", str)
ProcessName = NewType("ProcessName", str)
Incarnation = NewType("Incarnation", int)
UnitHash = NewType("UnitHash", bytes)
"""SHA-256 naming a chain of 16-token units; see common.kv.hashing."""


@dataclass(frozen=True, slots=True, order=True)
class AttemptKey:
    """One try to serve one request."""

    request: RequestId
    attempt: int

    def __str__(self) -> str:
        return f"{self.request}#{self.attempt}"


@dataclass(frozen=True, slots=True, order=True)
class ProcessId:
    """One life of one process."""

    name: ProcessName
    incarnation: Incarnation

    def __str__(self) -> str:
        return f"{self.name}/{self.incarnation:016x}"
