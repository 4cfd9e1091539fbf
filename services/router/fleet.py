"""The processes the router knows, with its links to them and what it believes of their caches.

The router connects to every worker and kvstore that says Hello, so that it sees a death at once;
gateways connect to it. Whatever ends a life (a broken connection, silence, a successor) forgets
its cache and load in the same breath. A process that was refused, or thought dead and is not, says
Hello only once: its Hello is kept, and judged again when it is heard to live.
"""

from dataclasses import dataclass, replace

import structlog

from common.domain.errors import ProtocolError
from common.domain.ids import ProcessId, ProcessName, UnitHash
from common.domain.peer import Medium, PeerRef, Role
from common.wire.messages import Message
from common.wire.messages.cluster import Hello, Pulse, StoreView, Welcome
from common.wire.messages.events import BlocksRemoved, BlocksStored, Snapshot, SnapshotWanted
from common.wire.port import Link, Port
from services.router.feed import EventFeed
from services.router.index import BlockIndex, Holder, Matches
from services.router.lifecycle import Record
from services.router.load import LoadBook
from services.router.membership import WORKERS, Member, Membership, Standing
from services.router.metrics import RouterMetrics
from services.router.placement import Candidate, Cluster

REFUSED_FOR_S = 1.0
"""A worker that refused an attempt is not asked again for so long, unless something ended there."""
SNAPSHOT_AGAIN_S = 2.0
RETURN_AFTER_S = 1.0
"""A pulse that comes sooner after a death may have been on its way before it."""
MAX_OUTSIDE = 64
log = structlog.get_logger()


@dataclass(slots=True)
class _Peer:
    """What we hold for one member besides its membership."""

    hello: Hello
    reply: Link
    link: Link | None
    """Our own connection; None for a gateway."""
    feed: EventFeed | None
    asked_at: float = 0.0
    """When a snapshot was last asked for or a part of one came."""


@dataclass(frozen=True, slots=True)
class _Outsider:
    """Not a member, but it may become one."""

    hello: Hello
    reply: Link
    since: float


class Fleet:
    def __init__(self, port: Port, max_nodes: int, metrics: RouterMetrics) -> None:
        self.members = Membership()
        self.index = BlockIndex(max_nodes)
        self.book = LoadBook()
        self._port = port
        self._metrics = metrics
        self._peers: dict[ProcessId, _Peer] = {}
        self._outside: dict[ProcessName, _Outsider] = {}

    def hello(self, link: Link, hello: Hello, now: float) -> ProcessId | None:
        """Welcome it or say why not. Returns the earlier life that this one ends, if any."""
        me = hello.me
        if link.peer != me.id:
            raise ProtocolError(f"{link.peer} says hello as {me.id}")
        self._outside.pop(me.name, None)
        admission = self.members.hello(hello, now)
        if admission.replaced is not None:
            self._forget(admission.replaced)
        link.send(Welcome(admission.accepted, admission.reason))
        if not admission.accepted:
            self._put_outside(_Outsider(hello, link, now))
            log.warning("process_refused", peer=str(me.id), reason=admission.reason)
            return admission.replaced
        if me.role in WORKERS:
            self.book.report(me.id, hello.load)
        peer = self._peers.get(me.id)
        if peer is None:
            self._join(link, hello)
        else:
            peer.reply = link
            self._ask_snapshot(peer, now)
        return admission.replaced

    def _join(self, reply: Link, hello: Hello) -> None:
        me = hello.me
        if me.role is Role.GATEWAY:
            self._peers[me.id] = _Peer(hello, reply, None, None)
        else:
            link = self._port.connect(me.address, expect=me.id)
            self._peers[me.id] = _Peer(hello, reply, link, EventFeed(self.index, me.id))
        log.info("process_joined", peer=str(me.id), role=me.role.name.lower())

    def _put_outside(self, outsider: _Outsider) -> None:
        if len(self._outside) >= MAX_OUTSIDE:
            del self._outside[next(iter(self._outside))]
        self._outside[outsider.hello.me.name] = outsider

    def returning(self, pulse: Pulse, now: float) -> tuple[Link, Hello] | None:
        """The Hello, and the way back, of an outsider that lives and would be welcome now."""
        outsider = self._outside.get(pulse.me.name)
        if outsider is None or outsider.hello.me.id != pulse.me.id:
            return None
        if now - outsider.since < RETURN_AFTER_S or self.members.objection(outsider.hello):
            return None
        return outsider.reply, replace(outsider.hello, load=pulse.load)

    def up(self, link: Link, now: float) -> None:
        """Our connection to a worker or kvstore stands."""
        peer = self._peers.get(link.peer) if link.peer is not None else None
        member = self.members.get(link.peer) if link.peer is not None else None
        if peer is None or member is None or peer.link is not link:
            return
        member.linked = True
        self._ask_snapshot(peer, now)
        if member.ref.role is Role.KVSTORE:
            self._tell_store()
        else:
            link.send(StoreView(self._store_of(member)))

    def lose(self, process: ProcessId, why: str, now: float) -> bool:
        """It is dead to us. False: it was no member."""
        member = self.members.remove(process)
        if member is None:
            return False
        peer = self._forget(process)
        if peer is not None:
            self._put_outside(_Outsider(peer.hello, peer.reply, now))
        log.warning("process_lost", peer=str(process), why=why)
        if member.ref.role in WORKERS:
            self._metrics.workers_lost.inc()
        if member.ref.role is Role.KVSTORE:
            self._tell_store()
        return True

    def banish(self, process: ProcessId) -> None:
        """It does not come back in this life."""
        outsider = self._outside.get(process.name)
        if outsider is not None and outsider.hello.me.id == process:
            del self._outside[process.name]

    def _forget(self, process: ProcessId) -> _Peer | None:
        self.index.drop_process(process)
        self.book.drop(process)
        peer = self._peers.pop(process, None)
        if peer is not None and peer.link is not None:
            peer.link.close()
        return peer

    def heard(self, process: ProcessId, now: float) -> None:
        """Anything it says is a sign of life."""
        member = self.members.get(process)
        if member is not None:
            member.heard_at = now

    def drain(self, process: ProcessId) -> None:
        member = self.members.get(process)
        if member is None or member.draining:
            return
        member.draining = True
        log.info("process_draining", peer=str(process))
        if member.ref.role is Role.KVSTORE:
            self._tell_store()

    def pulse(self, pulse: Pulse, now: float) -> bool:
        """False: from nobody we know."""
        member = self.members.pulse(pulse, now)
        if member is not None and member.ref.role in WORKERS:
            self.book.report(member.ref.id, pulse.load)
        return member is not None

    def blocks(
        self, process: ProcessId, message: BlocksStored | BlocksRemoved | Snapshot, now: float
    ) -> None:
        """Raises ProtocolError if it makes no sense."""
        peer = self._peers.get(process)
        if peer is None or peer.feed is None:
            return
        gaps = peer.feed.gaps
        if isinstance(message, Snapshot):
            peer.asked_at = now
            wants = peer.feed.snapshot(message)
        else:
            wants = peer.feed.event(message)
        self._metrics.event_gaps.inc(peer.feed.gaps - gaps)
        if wants:
            self._ask_snapshot(peer, now)

    def remind(self, now: float) -> None:
        """Ask again for snapshots that do not come."""
        for peer in self._peers.values():
            if peer.feed is None or not peer.feed.blind:
                continue
            if now - peer.asked_at >= SNAPSHOT_AGAIN_S:
                self._ask_snapshot(peer, now)

    def _ask_snapshot(self, peer: _Peer, now: float) -> None:
        if peer.link is not None:
            peer.asked_at = now
            peer.link.send(SnapshotWanted())

    def send(self, worker: ProcessId, message: Message) -> bool:
        """Over our own connection. False: it is not going to arrive."""
        peer = self._peers.get(worker)
        return peer is not None and peer.link is not None and peer.link.send(message)

    def reply(self, process: ProcessId, message: Message) -> bool:
        """Over the connection that a gateway made to us."""
        peer = self._peers.get(process)
        return peer is not None and peer.reply.send(message)

    def broadcast(self, role: Role, message: Message) -> None:
        for member in self.members.of_role(role):
            self.reply(member.ref.id, message)

    def _tell_store(self) -> None:
        for member in self.members.workers():
            self.send(member.ref.id, StoreView(self._store_of(member)))

    def _store_of(self, worker: Member) -> PeerRef | None:
        """The kvstore on the worker's own host if there is one: its arena can be mapped."""
        stores = [m for m in self.members.of_role(Role.KVSTORE) if m.linked and not m.draining]
        near = [m for m in stores if _host(m.ref) == _host(worker.ref)]
        return next((m.ref for m in near or stores), None)

    def cluster(self, units: tuple[UnitHash, ...], record: Record, now: float) -> Cluster:
        """Every worker that does not drain, as this attempt sees it, ordered by name."""
        matches = self.index.match(units)
        decode, prefill = (
            tuple(
                self._candidate(member, matches, record, now)
                for member in sorted(self.members.of_role(role), key=lambda m: m.ref.name)
                if not member.draining
            )
            for role in (Role.DECODE, Role.PREFILL)
        )
        return Cluster(decode, prefill)

    def _candidate(self, member: Member, matches: Matches, record: Record, now: float) -> Candidate:
        process = member.ref.id
        store = self._store_of(member)
        refused = record.refused_at.get(process)
        willing = (
            refused is None
            or now - refused >= REFUSED_FOR_S
            or self.book.freed_at(process) > refused
        )
        return Candidate(
            process=process,
            load=self.book.view(process, now),
            available=willing and member.standing(now) is Standing.ACTIVE,
            device_units=matches.get(Holder(process, Medium.DEVICE), 0),
            host_units=matches.get(Holder(store.id, Medium.HOST), 0) if store else 0,
        )

    def described(self, member: Member, now: float) -> dict[str, object]:
        """For people."""
        load = self.book.view(member.ref.id, now)
        return {
            "name": member.ref.name,
            "role": member.ref.role.name.lower(),
            "state": member.standing(now).value,
            "silent_s": round(now - member.heard_at, 2),
            "steps": member.steps,
            "sequences": load.sequences,
            "pending_tokens": load.pending_tokens,
            "blocks_used": load.blocks_used,
            "blocks_total": load.blocks_total,
            "indexed_units": self.index.count(member.ref.id),
        }


def _host(ref: PeerRef) -> str | None:
    return ref.arena.host if ref.arena is not None else None
