"""The router: composition root, inbox and clock.

Owns the progress of every attempt until its end, the queue, and soft copies of what workers hold
and carry. A restarted router starts with nothing: processes say Hello again, their snapshots fill
the index, gateways submit again what they had not seen placed. It never sees token text or KV
bytes.
"""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import assert_never

import structlog

from common.domain.errors import ErrorCode, InvalidTransition, ProtocolError
from common.domain.ids import ProcessId
from common.domain.peer import Role
from common.runtime import metrics as runtime_metrics
from common.runtime.admin import AdminAction
from common.runtime.service import run
from common.runtime.tasks import Tasks
from common.wire.messages import Message
from common.wire.messages.cluster import ClusterView, Goodbye, Hello, Pulse, StoreView, Welcome
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
from common.wire.zmq_port import ZmqPort
from services.router.attempts import Attempts, FromWriter
from services.router.fleet import Fleet
from services.router.lifecycle import State
from services.router.metrics import RouterMetrics
from services.router.plan import DEFAULT_RULES, PlanRules
from services.router.policies import POLICIES
from services.router.queue import AttemptQueue
from services.router.settings import RouterSettings

TICK_S = 0.1
VIEW_EVERY_S = 0.5
log = structlog.get_logger()


class RouterApp:
    """A Service and the Handler of its port. Runs on any Port and on any loop's clock."""

    def __init__(
        self,
        port: Port,
        policy: str = "kv_aware",
        rules: PlanRules = DEFAULT_RULES,
        queue_limit: int = 256,
        index_max_nodes: int = 500_000,
        seed: int = 0,
    ) -> None:
        self.registry = runtime_metrics.new_registry()
        self._port = port
        self._policy = policy
        self._metrics = RouterMetrics(self.registry)
        self._clock = asyncio.get_running_loop().time
        self.fleet = Fleet(port, index_max_nodes, self._metrics)
        self.attempts = Attempts(
            self.fleet,
            (policy, POLICIES[policy](Random(seed).randrange)),
            AttemptQueue(queue_limit),
            rules,
            self._metrics,
            self._clock,
        )
        self._tasks = Tasks()
        self._shown: ClusterView | None = None
        self._shown_at = 0.0
        self._started = self._draining = False
        self._settled = asyncio.Event()
        """While draining: no writer owes an answer."""
        self._metrics.watch("queue_length", "Attempts waiting.", lambda: self.attempts.queued)
        self._metrics.watch("attempts_live", "Attempts not ended.", lambda: len(self.attempts))
        self._metrics.watch("index_nodes", "Units in the index.", lambda: len(self.fleet.index))

    async def start(self) -> None:
        self._port.start(self)
        self._tasks.spawn(self._tick_on(), "router-tick")
        self._started = True

    def ready(self) -> bool:
        """It can admit and refuse. Whether anybody can be served is in the status and the view:
        workers can only join a router that counts as ready."""
        return self._started and not self._draining

    async def drain(self) -> None:
        """Streams that run need no router; only what is between two answers is waited for."""
        self._draining = True
        self.attempts.turn_away()
        self._settle()
        await self._settled.wait()

    async def stop(self) -> None:
        await self._tasks.cancel_all()
        self._port.close()

    def on_message(self, link: Link, message: Message) -> None:
        """The wire boundary: a peer that makes no sense is cut off, nothing else suffers."""
        if link.peer is None:
            return
        try:
            self._receive(link, link.peer, message)
        except ProtocolError as error:
            log.warning("peer_dropped", peer=str(link.peer), error=str(error))
            self._metrics.peers_dropped.inc()
            link.close()
            self._lose(link.peer, "it made no sense")
            self.fleet.banish(link.peer)
        self._show_change()
        self._settle()

    def on_up(self, link: Link) -> None:
        self.fleet.up(link, self._clock())
        self.attempts.pump()

    def on_down(self, link: Link) -> None:
        if link.peer is not None:
            self._lose(link.peer, "its connection broke")
            self._show_change()
            self._settle()

    def _receive(self, link: Link, sender: ProcessId, message: Message) -> None:
        now = self._clock()
        match message:
            case Hello():
                self._hello(link, message, now)
            case Pulse():
                self._pulse(sender, message, now)
            case Goodbye():
                self.fleet.drain(sender)
                self.attempts.pump()
            case Submit():
                self._submit(link, sender, message)
            case Cancel(key=key):
                self.attempts.cancel(key, sender)
                self.attempts.pump()
            case Accepted() | PromptDone() | Ended() | Failed():
                self._from_writer(sender, message, now)
            case BlocksStored() | BlocksRemoved() | Snapshot():
                self.fleet.heard(sender, now)
                self.fleet.blocks(sender, message, now)
            case (
                Welcome() | ClusterView() | StoreView() | SnapshotWanted()
                | Placed() | Assign() | Prefill() | Blocks() | FirstTokens() | Released() | Renew()
                | TokenBatch() | Finished() | FinishAck()
                | Offer() | Taken() | Lookup() | Found() | LeaseDone()
            ):  # fmt: skip
                self._metrics.unexpected.labels(type(message).__name__).inc()
                log.warning("message_unexpected", peer=str(sender), kind=type(message).__name__)
            case _:
                assert_never(message)

    def _hello(self, link: Link, hello: Hello, now: float) -> None:
        replaced = self.fleet.hello(link, hello, now)
        if replaced is not None:
            self._ended_life(replaced)
        if hello.me.role is Role.GATEWAY:
            self.fleet.reply(hello.me.id, self._view())
        self.attempts.pump()

    def _pulse(self, sender: ProcessId, pulse: Pulse, now: float) -> None:
        if pulse.me.id != sender:
            raise ProtocolError(f"{sender} pulses as {pulse.me.id}")
        if self.fleet.pulse(pulse, now):
            self.attempts.pump()
            return
        returning = self.fleet.returning(pulse, now)
        if returning is not None:
            self._hello(*returning, now)

    def _submit(self, link: Link, sender: ProcessId, submit: Submit) -> None:
        gateway = self.fleet.members.get(sender)
        if gateway is None or self._draining:
            why = "is stopping" if self._draining else "does not know this gateway yet"
            lost = Failed(submit.key, ErrorCode.ROUTER_LOST, f"the router {why}", retryable=True)
            link.send(lost)
            return
        gateway.heard_at = self._clock()
        self.attempts.submit(gateway.ref, submit)

    def _from_writer(self, sender: ProcessId, message: FromWriter, now: float) -> None:
        self.fleet.heard(sender, now)
        try:
            self.attempts.from_writer(sender, message)
        except InvalidTransition as error:
            raise ProtocolError(str(error)) from error
        self.attempts.pump()

    def _lose(self, process: ProcessId, why: str) -> None:
        # First, because nothing reaches it once the fleet has forgotten it.
        self.attempts.gateway_lost(process)
        if self.fleet.lose(process, why, self._clock()):
            self._ended_life(process)
            self.attempts.pump()

    def _ended_life(self, process: ProcessId) -> None:
        self.attempts.worker_lost(process)
        self.attempts.gateway_lost(process)

    async def _tick_on(self) -> None:
        while True:
            self._tick()
            await asyncio.sleep(TICK_S)

    def _tick(self) -> None:
        now = self._clock()
        for process in self.fleet.members.dead(now):
            self._lose(process, "it fell silent")
        self.fleet.remind(now)
        self.attempts.expire()
        self.attempts.pump()
        self._show_change()
        self._settle()
        if now - self._shown_at >= VIEW_EVERY_S:
            self._show(self._view())

    def _settle(self) -> None:
        if self._draining and not self.attempts.by_state()[State.ASSIGNED]:
            self._settled.set()

    def _view(self) -> ClusterView:
        return self.fleet.members.view(self.attempts.queued)

    def _show_change(self) -> None:
        """Tell the gateways at once what they decide by; the queue's length can wait."""
        view, shown = self._view(), self._shown
        if shown is None or (view.card, view.prefill, view.decode) != (
            shown.card,
            shown.prefill,
            shown.decode,
        ):
            self._show(view)

    def _show(self, view: ClusterView) -> None:
        self._shown, self._shown_at = view, self._clock()
        self.fleet.broadcast(Role.GATEWAY, view)

    def status(self) -> dict[str, object]:
        now = self._clock()
        card = self.fleet.members.card
        return {
            "policy": self._policy,
            "model": card.model if card is not None else None,
            "can_place": self.fleet.members.can_place,
            "queue_length": self.attempts.queued,
            "attempts": self.attempts.by_state(),
            "index_nodes": len(self.fleet.index),
            "members": [self.fleet.described(member, now) for member in self.fleet.members.all()],
        }

    def routes(self) -> Mapping[str, AdminAction]:
        return {"GET /debug/requests": self._stories}

    async def _stories(self) -> Mapping[str, object]:
        return {"attempts": self.attempts.stories()}


def main() -> None:
    settings = RouterSettings()
    rules = PlanRules(settings.max_sequences_per_worker, settings.local_prefill_tokens)

    def build(me: ProcessId) -> RouterApp:
        return RouterApp(
            ZmqPort(me, settings.bind_address),
            settings.policy,
            rules,
            settings.queue_limit,
            settings.index_max_nodes,
            settings.policy_seed,
        )

    run(build, settings)
