"""The process shell that both worker roles share: one inbox, one stream of engine events, one tick.

A role differs in one thing: prefill also computes prompts for others (HandOffs), decode does not.
Both write streams, because a request of one token needs no decode worker, and a decode worker can
prefill by itself.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import assert_never

import structlog
from prometheus_client import CollectorRegistry

from common.domain.errors import ErrorCode, ProtocolError
from common.domain.peer import Role
from common.engine.job import Computed, EngineEvent, ResetCache
from common.runtime.admin import AdminAction
from common.wire.messages import (
    Accepted,
    Assign,
    Blocks,
    BlocksRemoved,
    BlocksStored,
    Cancel,
    ClusterView,
    Ended,
    Failed,
    FinishAck,
    Finished,
    FirstTokens,
    Found,
    Goodbye,
    Hello,
    LeaseDone,
    Lookup,
    Message,
    Offer,
    Placed,
    Prefill,
    PromptDone,
    Pulse,
    Released,
    Renew,
    Snapshot,
    SnapshotWanted,
    StoreView,
    Submit,
    Taken,
    TokenBatch,
    Welcome,
)
from common.wire.port import Link
from common.worker.attempts import Attempts
from common.worker.hand_off import HandOffs
from common.worker.metrics import WorkerMetrics
from common.worker.node import Node, Parts

TICK_S = 1.0
LAST_ASSIGN_S = 1.0
"""An Assign that crosses our Goodbye has come by then."""
log = structlog.get_logger()


class Worker:
    """Implements Service and Handler."""

    def __init__(self, role: Role, parts: Parts, router_address: str) -> None:
        self._role = role
        self._node = Node(role, parts, router_address)
        self._attempts = Attempts(self._node, role)
        self._hand_offs = HandOffs(self._node)
        self._metrics = WorkerMetrics(self._node)
        self._draining = False

    # Service -----------------------------------------------------------------------------------

    @property
    def registry(self) -> CollectorRegistry:
        return self._metrics.registry

    async def start(self) -> None:
        self._node.port.start(self)
        self._node.host.start(self._on_events)
        self._node.start()
        self._node.tasks.spawn(self._tick(), "tick")

    def ready(self) -> bool:
        return self._node.ready() and not self._draining

    def status(self) -> dict[str, object]:
        load = self._node.host.load
        return {
            "role": self._role.name.lower(),
            "model": self._node.card.model,
            "refused": self._node.refusal,
            "running": load.running,
            "waiting": load.waiting,
            "attempts": len(self._attempts),
            "hand_offs": len(self._hand_offs),
            "blocks_used": load.blocks_used,
            "blocks_cached": load.blocks_cached,
            "blocks_total": load.blocks_total,
            "blocks_pinned": self._node.pins.open,
            "unacknowledged": len(self._attempts.writer),
            "steps": self._node.host.steps,
            "kv_waste": round(self._node.host.engine.integral.waste, 4),
            "kv_reserved_empty": round(self._node.host.engine.integral.reserved_share, 4),
            "bytes_moved": {end: moved.bytes for end, moved in self._node.transfer.moved.items()},
        }

    def routes(self) -> Mapping[str, AdminAction]:
        return {"POST /reset_prefix_cache": self._reset_prefix_cache}

    async def _reset_prefix_cache(self) -> dict[str, object]:
        before = self._node.host.load.blocks_cached
        self._node.host.submit(ResetCache())
        return {"blocks_dropped_at_most": before}

    async def drain(self) -> None:
        self._draining = True
        self._node.say_goodbye()
        # What the router sent before it heard us is still on its way here.
        await asyncio.sleep(LAST_ASSIGN_S)
        while len(self._attempts) or len(self._hand_offs) or len(self._attempts.writer):
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        await self._node.stop()

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(TICK_S)
            now = loop.time()
            self._attempts.tick(now)
            self._hand_offs.lapse(now)
            self._node.pulse_to(self._attempts.gateway_addresses())

    # Engine --------------------------------------------------------------------------------------

    def _on_events(self, events: Sequence[EngineEvent]) -> None:
        """Everything one step gave."""
        node = self._node
        for event in events:
            known = (
                node.on_cache_event(event)
                or self._attempts.on_event(event)
                or self._hand_offs.on_event(event)
            )
            if not known and isinstance(event, Computed):
                # Cancelled meanwhile: the engine pinned these for nobody.
                node.pins.let_go(node.pins.hold(event.slots))
        self._attempts.writer.flush()
        self._metrics.observe(events)

    # Wire ----------------------------------------------------------------------------------------

    def on_up(self, link: Link) -> None:
        self._node.router.on_up(link)

    def on_down(self, link: Link) -> None:
        for owner in (self._node.router, self._node.store, self._attempts):
            if owner.on_down(link):
                return

    def on_message(self, link: Link, message: Message) -> None:
        try:
            self._handle(link, message)
        except ProtocolError as error:
            log.warning("message_broken", kind=type(message).__name__, error=str(error))
            if isinstance(message, Assign | Prefill):
                key = message.submit.key if isinstance(message, Assign) else message.key
                link.send(Failed(key, ErrorCode.INVALID_REQUEST, str(error)))

    def _handle(self, link: Link, message: Message) -> None:
        now = asyncio.get_running_loop().time()
        match message:
            case Assign():
                self._attempts.assign(link, message)
            case Prefill():
                self._hand_offs.begin(link, message)
            case Cancel(key):
                if not self._attempts.cancel(key):
                    self._hand_offs.end(key)
            case Released(key):
                self._hand_offs.end(key)
            case Renew(keys):
                self._attempts.renew(keys, now)
                self._hand_offs.renew(keys, now)
            case FinishAck(key):
                self._attempts.writer.acknowledged(key)
            case Blocks() | FirstTokens() | Failed():
                self._attempts.on_prefill_message(message)
            case Welcome():
                self._node.welcomed(message)
            case StoreView(store):
                self._node.store.store_changed(store)
            case SnapshotWanted():
                self._node.snapshot_wanted()
            case Taken() | Found() | Hello():
                self._node.store.on_message(link, message)
            case (
                Accepted() | BlocksRemoved() | BlocksStored() | ClusterView() | Ended() | Finished()
                | Goodbye() | LeaseDone() | Lookup() | Offer() | Placed() | PromptDone() | Pulse()
                | Snapshot() | Submit() | TokenBatch()
            ):  # fmt: skip
                log.warning("message_unexpected", kind=type(message).__name__)
            case _:
                assert_never(message)
