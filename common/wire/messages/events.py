"""KV events: workers and kvstore tell the router which unit hashes they hold.

Each sender numbers its events from 1 in every incarnation. A gap makes the router ask for a
snapshot; updates at or below the snapshot's number are dropped (the Clone pattern of the ZeroMQ
guide).
"""

from dataclasses import dataclass

from common.domain.peer import Medium


@dataclass(frozen=True, slots=True)
class BlocksStored:
    number: int
    medium: Medium
    parent: bytes
    units: bytes
    """A run of consecutive units continuing `parent`."""


@dataclass(frozen=True, slots=True)
class BlocksRemoved:
    number: int
    medium: Medium
    units: bytes


@dataclass(frozen=True, slots=True)
class SnapshotWanted:
    pass


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything held as of event `number`, in parts; parents stand beside units."""

    number: int
    medium: Medium
    parents: bytes
    units: bytes
    part: int = 0
    last: bool = True
