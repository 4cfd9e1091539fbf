"""Who is in the cluster: one life per name, what it serves, whether it still moves.

The first worker accepted fixes the served card; one whose card differs is refused with the field
that differs, except that `context_tokens` may differ: the smallest rules. The card is released
with the last worker. Pulses come from a thread, so silence means that the process is not
scheduled, and every other message counts as a sign of life too. Silent for a second: no new work.
For three: dead.
"""

from dataclasses import dataclass, fields, replace
from enum import StrEnum

from common.domain.card import ModelCard
from common.domain.ids import ProcessId, ProcessName
from common.domain.peer import PeerRef, Role
from common.wire.messages.cluster import PROTOCOL_VERSION, ClusterView, Hello, Load, Pulse

SUSPECT_AFTER_S = 1.0
DEAD_AFTER_S = 3.0
WORKERS = (Role.PREFILL, Role.DECODE)


class Standing(StrEnum):
    """What a member may be given. Only ACTIVE ones get new work."""

    CONNECTING = "connecting"
    ACTIVE = "active"
    SUSPECT = "suspect"
    DRAINING = "draining"


@dataclass(slots=True)
class Member:
    """One life of one process."""

    ref: PeerRef
    card: ModelCard | None
    load: Load
    heard_at: float
    steps: int = 0
    linked: bool = False
    """Our own connection to it stands. Gateways have none: they connect to us."""
    draining: bool = False

    def standing(self, now: float) -> Standing:
        if self.draining:
            return Standing.DRAINING
        if not self.linked and self.ref.role is not Role.GATEWAY:
            return Standing.CONNECTING
        if now - self.heard_at >= SUSPECT_AFTER_S:
            return Standing.SUSPECT
        return Standing.ACTIVE


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to a Hello. `replaced`: the earlier life that ends with it."""

    accepted: bool
    reason: str = ""
    replaced: ProcessId | None = None


class Membership:
    def __init__(self) -> None:
        self._members: dict[ProcessName, Member] = {}
        self._card: ModelCard | None = None

    def hello(self, hello: Hello, now: float) -> Admission:
        me = hello.me
        known = self._members.get(me.name)
        if known is not None and known.ref.id == me.id:
            known.load, known.heard_at = hello.load, now
            return Admission(accepted=True)
        replaced = known.ref.id if known is not None else None
        if replaced is not None:
            self.remove(replaced)
        reason = self.objection(hello)
        if reason:
            return Admission(accepted=False, reason=reason, replaced=replaced)
        if me.role in WORKERS and self._card is None:
            self._card = hello.card
        self._members[me.name] = Member(me, hello.card, hello.load, now)
        return Admission(accepted=True, replaced=replaced)

    def objection(self, hello: Hello) -> str:
        """Why it cannot join; empty if it can."""
        if hello.protocol != PROTOCOL_VERSION:
            return f"protocol {hello.protocol} is not ours ({PROTOCOL_VERSION})"
        if hello.me.role is Role.ROUTER:
            return "a router does not join a router"
        if hello.me.role not in WORKERS:
            return ""
        if hello.card is None:
            return "a worker without a model card"
        return "" if self._card is None else _difference(self._card, hello.card)

    def remove(self, process: ProcessId) -> Member | None:
        member = self.get(process)
        if member is None:
            return None
        del self._members[process.name]
        if not self.workers():
            self._card = None
        return member

    def pulse(self, pulse: Pulse, now: float) -> Member | None:
        """None: not a member in this life."""
        member = self.get(pulse.me.id)
        if member is not None:
            member.heard_at, member.steps, member.load = now, pulse.steps, pulse.load
        return member

    def get(self, process: ProcessId) -> Member | None:
        member = self._members.get(process.name)
        return member if member is not None and member.ref.id == process else None

    def all(self) -> list[Member]:
        return list(self._members.values())

    def of_role(self, role: Role) -> list[Member]:
        return [member for member in self._members.values() if member.ref.role is role]

    def workers(self) -> list[Member]:
        return [member for member in self._members.values() if member.ref.role in WORKERS]

    def dead(self, now: float) -> list[ProcessId]:
        """Those silent for too long; whoever asks removes them."""
        members = self._members.values()
        return [member.ref.id for member in members if now - member.heard_at >= DEAD_AFTER_S]

    @property
    def card(self) -> ModelCard | None:
        """The served card, with the smallest context limit of all workers."""
        if self._card is None:
            return None
        cards = [member.card for member in self.workers() if member.card is not None]
        return replace(self._card, context_tokens=min(card.context_tokens for card in cards))

    @property
    def can_place(self) -> bool:
        return any(not member.draining for member in self.of_role(Role.DECODE))

    def view(self, queued: int) -> ClusterView:
        """Workers that drain are not counted."""
        prefill, decode = (
            sum(not member.draining for member in self.of_role(role)) for role in WORKERS
        )
        return ClusterView(card=self.card, prefill=prefill, decode=decode, queued=queued)


def _difference(served: ModelCard, other: ModelCard) -> str:
    for field in fields(ModelCard):
        ours, theirs = getattr(served, field.name), getattr(other, field.name)
        if field.name != "context_tokens" and ours != theirs:
            return f"model card differs in {field.name}: served {ours}, offered {theirs}"
    return ""
