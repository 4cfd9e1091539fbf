"""Membership: who is there, what they serve, and that they still move."""

from dataclasses import dataclass

from common.domain.card import ModelCard
from common.domain.peer import PeerRef

PROTOCOL_VERSION = 1


@dataclass(frozen=True, slots=True)
class Load:
    """What a worker holds right now."""

    running: int = 0
    waiting: int = 0
    blocks_total: int = 0
    blocks_used: int = 0
    """Blocks of living sequences; cached ones that nobody uses are free."""
    blocks_cached: int = 0
    tokens_live: int = 0
    """Slots of `blocks_used` that hold live token state."""
    blocks_empty: int = 0
    """Blocks reserved for tokens that have not come yet."""


@dataclass(frozen=True, slots=True)
class Hello:
    """First message on every link that matters. `card` is None for a process without a model."""

    me: PeerRef
    card: ModelCard | None = None
    load: Load = Load()
    protocol: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class Welcome:
    """The router's answer. A refused process stays connected and serves nothing."""

    accepted: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pulse:
    """Sent several times a second from a thread the event loop cannot block."""

    me: PeerRef
    steps: int
    """Engine steps done since the start: a worker that is silent but steps is not dead."""
    load: Load = Load()


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Router to gateways, on every change and twice a second: also the router's own pulse."""

    card: ModelCard | None
    prefill: int
    decode: int
    queued: int = 0


@dataclass(frozen=True, slots=True)
class StoreView:
    """Router to workers: the kvstore to use, or None while there is none."""

    store: PeerRef | None


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The sender drains: give it no new work."""

    me: PeerRef
