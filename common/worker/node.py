"""What every worker is, whatever its role: an engine, an arena, a place in the cluster.

Owned by the app of the role and shared by its parts. Holds no policy and no attempt.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from common.domain.block import LayoutTag
from common.domain.card import ModelCard
from common.domain.peer import PeerRef, Role
from common.engine.host import EngineHost
from common.engine.job import CacheChanged, Contents, EngineEvent, WantSnapshot
from common.runtime.membership import RouterLink
from common.runtime.tasks import Tasks
from common.store.arena import Arena
from common.store.client import StoreClient
from common.store.publish import Publisher
from common.store.transfer import Transfer
from common.wire.messages.cluster import Goodbye, Hello, Pulse, Welcome
from common.wire.port import Port
from common.wire.pulse import MakeHeartbeat
from common.worker.cache_feed import CacheFeed
from common.worker.pins import Pins


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a node is built from; the simulator brings other ones."""

    port: Port
    host: EngineHost
    arena: Arena
    layout: LayoutTag
    transfer: Transfer
    publish: Publisher
    heartbeat: MakeHeartbeat
    card: ModelCard


class Node:
    """The worker as its peers see it."""

    def __init__(self, role: Role, parts: Parts, router_address: str) -> None:
        self._role = role
        self._router_address = router_address
        self._publish = parts.publish
        self.port = parts.port
        self.host = parts.host
        self.arena = parts.arena
        self.layout = parts.layout
        self.transfer = parts.transfer
        pool_tokens = (parts.arena.slots - 1) * parts.layout.block_tokens
        context = min(parts.card.context_tokens, pool_tokens)
        self.card = replace(parts.card, context_tokens=context)
        self.router = RouterLink(parts.port, router_address, self.hello)
        self.store = StoreClient(parts.port, parts.transfer, self.hello, parts.layout)
        self.feed = CacheFeed(self.router.send)
        self.pins = Pins(parts.host.submit)
        self.tasks = Tasks()
        self.accepted = False
        self.refusal = ""
        self._heartbeat = parts.heartbeat(parts.port.me, self._pulse)

    def start(self) -> None:
        """After the port is bound: make the arena readable, join the cluster."""
        self._publication = self._publish(self.arena)
        me = self.port.me
        self.me = PeerRef(
            me.name, me.incarnation, self._role, self.port.address, self._publication.ref
        )
        self.router.start()
        self._heartbeat.listen(frozenset({self._router_address}))
        self._heartbeat.start()

    def hello(self) -> Hello:
        return Hello(self.me, self.card, self.host.load)

    def _pulse(self) -> Pulse:
        return Pulse(self.me, self.host.steps, self.host.load)

    def pulse_to(self, addresses: Sequence[str]) -> None:
        """Who hears our heartbeat besides the router."""
        self._heartbeat.listen(frozenset({self._router_address, *addresses}))

    def welcomed(self, message: Welcome) -> None:
        self.accepted = message.accepted
        self.refusal = message.reason

    def ready(self) -> bool:
        return self.router.up and self.accepted

    def snapshot_wanted(self) -> None:
        self.host.submit(WantSnapshot())

    def on_cache_event(self, event: EngineEvent) -> bool:
        """True: it was about the cache and the router has been told."""
        match event:
            case CacheChanged():
                self.feed.changed(event)
            case Contents(stored):
                self.feed.snapshot(stored)
            case _:
                return False
        return True

    def say_goodbye(self) -> None:
        self.router.send(Goodbye(self.me))

    async def stop(self) -> None:
        await self.tasks.cancel_all()
        self._heartbeat.stop()
        self.store.close()
        self.host.stop()
        self._publication.close()
        # The transfer thread may be in a copy out of the arena for up to two seconds.
        await asyncio.to_thread(self.transfer.close)
        self.port.close()
        self.arena.close()
