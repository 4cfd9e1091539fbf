"""The kvstore: composition root and inbox.

Owns one arena of host memory and the directory of what lies there. Workers offer blocks, which it
pulls; workers look blocks up, and pull them under a lease. A worker's death needs no action: its
leases lapse, a pull from its arena finishes or misses. Nothing survives the store's own death,
which costs its clients a recomputation.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import assert_never

import structlog

from common.domain.errors import ProtocolError
from common.domain.ids import ProcessId
from common.domain.peer import PeerRef, Role
from common.runtime import metrics as runtime_metrics
from common.runtime.admin import AdminAction
from common.runtime.membership import RouterLink
from common.runtime.service import run
from common.runtime.tasks import Tasks
from common.store.publish import Publisher, data_address, publish
from common.store.transfer import Transfer
from common.wire.columns import unpack_hashes
from common.wire.descriptors import pack_descriptors
from common.wire.messages import Message
from common.wire.messages.cluster import (
    ClusterView,
    Goodbye,
    Hello,
    Load,
    Pulse,
    StoreView,
    Welcome,
)
from common.wire.messages.events import BlocksRemoved, BlocksStored, Snapshot, SnapshotWanted
from common.wire.messages.store import Found, LeaseDone, Lookup, Offer, Taken
from common.wire.messages.submit import Cancel, Failed, Placed, Submit
from common.wire.messages.tokens import FinishAck, Finished, TokenBatch
from common.wire.messages.work import (
    Accepted,
    Assign,
    Blocks,
    Ended,
    FirstTokens,
    Prefill,
    PromptDone,
    Released,
    Renew,
)
from common.wire.port import Link, Port
from common.wire.pulse import MakeHeartbeat, PulseThread
from common.wire.zmq_port import ZmqPort
from services.kvstore.announcer import Announcer
from services.kvstore.intake import OFFER_LEASE_S, Intake, WaitingOffer, offered_blocks
from services.kvstore.metrics import StoreCollector
from services.kvstore.settings import KvStoreSettings
from services.kvstore.shelf import Shelf, ShelfRules
from services.kvstore.stock import Stock

SWEEP_S = 0.5
log = structlog.get_logger()


class KvStoreApp:
    """A Service and the Handler of its port. Runs on any Port and on any loop's clock."""

    def __init__(
        self,
        port: Port,
        router_address: str,
        transfer: Transfer,
        publish: Publisher,
        rules: ShelfRules,
        make_heartbeat: MakeHeartbeat,
    ) -> None:
        """Owns port and transfer from here on."""
        self.registry = runtime_metrics.new_registry()
        self._port = port
        self._transfer = transfer
        self._slot_bytes = rules.slot_bytes
        self._clock = asyncio.get_running_loop().time
        self._router_address = router_address
        self._router = RouterLink(port, router_address, self._hello)
        self._announcer = Announcer(self._router)
        self.stock = Stock(rules, transfer, publish, self._announcer, self._clock)
        self._intake = Intake(transfer, self._shelf_for, self._announcer, self._clock)
        self._workers: dict[ProcessId, tuple[PeerRef, Link]] = {}
        self._tasks = Tasks()
        self._all_returned = asyncio.Event()
        self._load = Load()
        self._steps = 0
        self._heartbeat = make_heartbeat(port.me, self._pulse)
        self._welcome = self._draining = False
        StoreCollector(self.registry, self._announcer.counts, self.stock.slots)

    async def start(self) -> None:
        self._port.start(self)
        if self._slot_bytes:
            await self._shelf_for(self._slot_bytes)
        self._router.start()
        self._heartbeat.start()
        self._heartbeat.listen(frozenset({self._router_address}))
        self._tasks.spawn(self._intake.run(), "kvstore-intake")
        self._tasks.spawn(self._sweep(), "kvstore-sweep")

    def ready(self) -> bool:
        return self._welcome and self._router.up and not self._draining

    async def drain(self) -> None:
        """Finish the offers that wait, and let readers end their leases."""
        self._draining = True
        self._router.send(Goodbye(self._me()))
        await self._intake.idle()
        self._all_returned.clear()
        await self._all_returned.wait()

    async def stop(self) -> None:
        await self._tasks.cancel_all()
        self._heartbeat.stop()
        self._router.close()
        self._transfer.close()
        self.stock.close()
        self._port.close()

    def status(self) -> dict[str, object]:
        shelf = self.stock.shelf
        return {
            "slots": self.stock.slots(),
            "bytes_held": sum(block.layout.block_bytes for block in self.stock.visible()),
            "slot_bytes": shelf.arena.slot_bytes if shelf else 0,
            "workers": len(self._workers),
            "leases": len(self.stock.leases),
            **asdict(self._announcer.counts),
        }

    def routes(self) -> Mapping[str, AdminAction]:
        return {"POST /flush": self._flush}

    async def _flush(self) -> Mapping[str, object]:
        return {"blocks_removed": self.stock.flush(), "slots": self.stock.slots()}

    def on_up(self, link: Link) -> None:
        self._router.on_up(link)

    def on_down(self, link: Link) -> None:
        if self._router.on_down(link):
            self._welcome = False

    def on_message(self, link: Link, message: Message) -> None:
        """The wire boundary: a peer that makes no sense is cut off, nothing else suffers."""
        try:
            self._receive(link, message)
        except ProtocolError as error:
            log.warning("peer_dropped", peer=str(link.peer), error=str(error))
            self._announcer.counts.peers_dropped += 1
            if not self._router.owns(link):
                link.close()

    def _receive(self, link: Link, message: Message) -> None:
        match message:
            case Offer():
                self._offer(link, message)
            case Lookup():
                names = unpack_hashes(message.names)
                lease, blocks = self.stock.lend(_sender(link), names, message.layout)
                link.send(Found(message.lookup, lease, *pack_descriptors(blocks)))
            case LeaseDone():
                self.stock.give_back(message.lease, _sender(link))
            case Hello():
                self._introduced(link, message)
            case Welcome():
                self._welcome = message.accepted
                if not message.accepted:
                    log.error("process_refused", reason=message.reason)
            case SnapshotWanted():
                for part in self._announcer.log.snapshot(self.stock.visible()):
                    link.send(part)
            case (
                Pulse() | ClusterView() | StoreView() | Goodbye()
                | Submit() | Placed() | Failed() | Cancel()
                | Assign() | Accepted() | PromptDone() | Ended()
                | Prefill() | Blocks() | FirstTokens() | Released() | Renew()
                | TokenBatch() | Finished() | FinishAck()
                | Taken() | Found() | BlocksStored() | BlocksRemoved() | Snapshot()
            ):  # fmt: skip
                self._announcer.counts.messages_unexpected += 1
                kind = type(message).__name__
                log.warning("message_unexpected", peer=str(link.peer), kind=kind)
            case _:
                assert_never(message)

    def _introduced(self, link: Link, hello: Hello) -> None:
        """A worker and its arena. It learns ours in return."""
        me = hello.me
        if _sender(link) != me.id:
            raise ProtocolError(f"{link.peer} says hello as {me.id}")
        self.stock.forget_earlier_lives(me.id)
        for earlier in [known for known in self._workers if known.name == me.name]:
            del self._workers[earlier]
        self._workers[me.id] = (me, link)
        link.send(self._hello())

    def _offer(self, link: Link, offer: Offer) -> None:
        worker = self._workers.get(_sender(link))
        arena = worker[0].arena if worker is not None else None
        blocks = offered_blocks(offer)
        self._announcer.counts.offers += 1

        def finished() -> None:
            link.send(Taken(offer.offer))

        if arena is not None and not self._draining:
            lapses_at = self._clock() + OFFER_LEASE_S
            if self._intake.put(WaitingOffer(arena, offer.layout, blocks, lapses_at, finished)):
                return
        self._announcer.counts.offers_turned_away += 1
        finished()

    async def _shelf_for(self, block_bytes: int) -> Shelf | None:
        """Workers must know the arena as soon as it is made."""
        before = self.stock.shelf
        shelf = await self.stock.shelf_for(block_bytes)
        if shelf is not before and shelf is not None:
            for _, link in self._workers.values():
                link.send(self._hello())
        return shelf

    async def _sweep(self) -> None:
        while True:
            self._steps += 1
            self.stock.expire()
            if not len(self.stock.leases):
                self._all_returned.set()
            slots = self.stock.slots()
            self._load = Load(
                blocks_total=slots["total"],
                blocks_used=slots["leased"] + slots["filling"],
                blocks_cached=slots["held"],
            )
            await asyncio.sleep(SWEEP_S)

    def _me(self) -> PeerRef:
        me = self._port.me
        arena = self.stock.arena_ref(me)
        return PeerRef(me.name, me.incarnation, Role.KVSTORE, self._port.address, arena)

    def _hello(self) -> Hello:
        return Hello(self._me(), load=self._load)

    def _pulse(self) -> Pulse:
        """Runs on the heartbeat's thread."""
        return Pulse(self._me(), self._steps, self._load)


def _sender(link: Link) -> ProcessId:
    """Raises ProtocolError on our own link to the router: it asks for nothing but snapshots."""
    if link.peer is None:
        raise ProtocolError("a request where only the router's answers are expected")
    return link.peer


def main() -> None:
    settings = KvStoreSettings()

    def build(me: ProcessId) -> KvStoreApp:
        address = settings.bind_address
        host = settings.host
        frames = data_address(address, settings.host, settings.run_dir, me.name)
        return KvStoreApp(
            ZmqPort(me, address),
            settings.router_address,
            Transfer.open(host),
            partial(publish, me=me, host=host, run_dir=settings.run_dir, data_address=frames),
            ShelfRules(host, settings.arena_bytes, settings.slot_bytes, settings.eviction),
            PulseThread,
        )

    run(build, settings)
