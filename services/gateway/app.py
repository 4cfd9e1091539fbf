"""The gateway: its wire side, and the service that puts HTTP and a heartbeat beside it.

`GatewayApp` is everything that needs no socket of its own: it runs on any Port, so tests and the
simulator build it on the network in memory. `GatewayService` is what `run()` runs.
"""

import asyncio
import random
import time
from collections.abc import Mapping
from typing import assert_never

import structlog
from prometheus_client import CollectorRegistry

from common.domain.errors import ProtocolError
from common.domain.ids import ProcessId
from common.domain.peer import PeerRef, Role
from common.runtime.admin import AdminAction
from common.runtime.membership import RouterLink
from common.runtime.metrics import new_registry
from common.runtime.service import run
from common.runtime.tasks import Tasks
from common.wire.messages import Message
from common.wire.messages.cluster import (
    ClusterView,
    Goodbye,
    Hello,
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
from common.wire.pulse import PulseThread
from common.wire.zmq_port import ZmqPort
from services.gateway.attempts import Attempts
from services.gateway.canary import Canary
from services.gateway.cluster import ClusterState
from services.gateway.http.call import Desk
from services.gateway.http.server import HttpServer
from services.gateway.metrics import GatewayMetrics
from services.gateway.mock_text import mock_text
from services.gateway.served_text import ServedText, served_text
from services.gateway.settings import GatewaySettings
from services.gateway.writers import Writers

TICK_S = 0.25
RENEW_TICKS = 4
log = structlog.get_logger()


class GatewayApp:
    """The wire Handler, and the owner of all parts."""

    def __init__(
        self,
        port: Port,
        router_address: str,
        text: ServedText,
        rng: random.Random,
        registry: CollectorRegistry,
    ) -> None:
        self._port = port
        self._metrics = GatewayMetrics(registry)
        self._router = RouterLink(port, router_address, self._hello)
        self._writers = Writers(port)
        self._text = text
        self._cluster = ClusterState(text.digest)
        self._tasks = Tasks()
        self._drained = asyncio.Event()
        self.attempts = Attempts(self._router, self._writers, text.tokenizer, self._metrics)
        self._canary = Canary(self.attempts, self._cluster, text, rng)
        self.desk = Desk(
            text=text,
            cluster=self._cluster,
            attempts=self.attempts,
            metrics=self._metrics,
            proven=lambda: self._canary.proven,
            rng=rng,
            started_at=int(time.time()),
        )

    @property
    def me(self) -> PeerRef:
        me = self._port.me
        return PeerRef(me.name, me.incarnation, Role.GATEWAY, self._port.address)

    def start(self) -> None:
        """Raises OSError if the port's address is taken."""
        self._port.start(self)
        self._router.start()
        self._tasks.spawn(self._tick(), "tick")
        self._tasks.spawn(self._canary.run(), "canary")

    async def drain(self) -> None:
        """Refuse new requests, wait until those that run have ended."""
        self.desk.draining = True
        await self._drained.wait()

    async def stop(self) -> None:
        await self._tasks.cancel_all()
        self._writers.close()
        self._router.close()
        self._port.close()
        self._text.close()

    def on_up(self, link: Link) -> None:
        if self._router.on_up(link):
            self._cluster.router_came(_now())
            log.info("router_connected")

    def on_down(self, link: Link) -> None:
        if self._router.on_down(link):
            log.warning("router_disconnected")
            self._cluster.router_went()
            self._lose_router()
            return
        writer = self._writers.down(link, _now())
        if writer is not None:
            self._lose_writer(writer, "disconnected")

    def on_message(self, link: Link, message: Message) -> None:
        try:
            self._handle(link, message)
        except ProtocolError as error:
            log.error("bad_message_received", peer=str(link.peer), error=str(error))
            if not self._router.owns(link):
                link.close()

    def _handle(self, link: Link, message: Message) -> None:
        match message:
            case TokenBatch():
                self.attempts.tokens(link, message)
            case Finished():
                self.attempts.finished(link, message)
            case Pulse(me):
                self._pulse(link, me)
            case Failed():
                self.attempts.failed(link, message)
            case Placed() | ClusterView() | Welcome():
                self._from_router(link, message)
            case Hello() | Goodbye():
                # A writer introduces itself, or drains: its streams run on.
                return
            case (
                StoreView() | Submit() | Cancel() | Assign() | Accepted() | PromptDone() | Ended()
                | Prefill() | Blocks() | FirstTokens() | Released() | Renew() | FinishAck()
                | Offer() | Taken() | Lookup() | Found() | LeaseDone()
                | BlocksStored() | BlocksRemoved() | SnapshotWanted() | Snapshot()
            ):  # fmt: skip
                self._unexpected(link, message)
            case _:
                assert_never(message)

    def _from_router(self, link: Link, message: Placed | ClusterView | Welcome) -> None:
        if not self._router.owns(link):
            self._unexpected(link, message)
            return
        match message:
            case Placed():
                self.attempts.placed(message)
            case ClusterView():
                self._see(message)
            case Welcome(accepted, reason):
                if not accepted:
                    log.error("gateway_refused", reason=reason)
            case _:
                assert_never(message)

    def _unexpected(self, link: Link, message: Message) -> None:
        kind = type(message).__name__
        self._metrics.unexpected.labels(kind).inc()
        log.warning("message_unexpected", kind=kind, peer=str(link.peer))

    def _hello(self) -> Hello:
        return Hello(self.me)

    def _pulse(self, link: Link, writer: PeerRef) -> None:
        if link.peer != writer.id:
            return
        self._writers.pulsed(writer.id, _now())
        if not self._writers.connected(writer.id) and self.attempts.writes(writer.id):
            # Its tokens came, but the router died before its Placed did.
            self._writers.watch(writer, _now())

    def _see(self, view: ClusterView) -> None:
        before, foreign = self._cluster.view, self._cluster.foreign_tokenizer
        self._cluster.see(view, _now())
        if before is None or (before.prefill, before.decode) != (view.prefill, view.decode):
            log.info("cluster_changed", prefill=view.prefill, decode=view.decode)
        theirs = self._cluster.foreign_tokenizer
        if theirs is not None and theirs != foreign:
            log.error("tokenizer_differs", cluster=theirs, gateway=self._text.digest)
        self._canary.cluster_changed()

    def _lose_router(self) -> None:
        self.attempts.router_lost()
        self._canary.cluster_changed()

    def _lose_writer(self, writer: ProcessId, why: str) -> None:
        log.warning("writer_lost", writer=str(writer), why=why)
        self.attempts.writer_lost(writer)

    async def _tick(self) -> None:
        ticks = 0
        while True:
            await asyncio.sleep(TICK_S)
            ticks += 1
            if self.desk.draining and not self.desk.calls and not len(self.attempts):
                self._drained.set()
            now, busy = _now(), self.attempts.by_writer()
            for writer in self._writers.silent(busy, now):
                self._lose_writer(writer, "silent")
            if self._cluster.router_fell_silent(now):
                log.warning("router_silent")
                self._lose_router()
            if ticks % RENEW_TICKS == 0:
                self._writers.renew(self.attempts.by_writer())


class GatewayService:
    """One gateway process."""

    def __init__(self, app: GatewayApp, http: HttpServer, pulse: PulseThread) -> None:
        self._app = app
        self._http = http
        self._pulse = pulse

    @property
    def http_port(self) -> int:
        """The real one, once started."""
        return self._http.port

    @property
    def registry(self) -> CollectorRegistry:
        return self._app.desk.metrics.registry

    async def start(self) -> None:
        self._app.start()
        self._pulse.start()
        await self._http.start()

    def ready(self) -> bool:
        return self._app.desk.ready

    def status(self) -> dict[str, object]:
        desk = self._app.desk
        refusal, view = desk.refusal(), desk.cluster.view
        return {
            "model": None if desk.cluster.card is None else desk.cluster.card.model,
            "http_port": self.http_port,
            "problem": "" if refusal is None else refusal.message,
            "proven": desk.proven(),
            "prefill": 0 if view is None else view.prefill,
            "decode": 0 if view is None else view.decode,
            "running": len(desk.attempts),
        }

    def routes(self) -> Mapping[str, AdminAction]:
        return {}

    async def drain(self) -> None:
        await self._app.drain()

    async def stop(self) -> None:
        await self._http.stop()
        self._pulse.stop()
        await self._app.stop()


def build(settings: GatewaySettings, me: ProcessId) -> GatewayService:
    mock = settings.engine == "mock"
    text = mock_text() if mock else served_text(settings.model, settings.cache.expanduser())
    port = ZmqPort(me, settings.bind_address)
    app = GatewayApp(port, settings.router_address, text, random.SystemRandom(), new_registry())
    app.desk.write_limit_s = settings.client_stall_s
    app.attempts.limit_s = settings.request_limit_s
    http = HttpServer(app.desk, settings.http_host, settings.http_port)
    # Its own steps are nobody's concern: a gateway has no engine.
    pulse = PulseThread(me, lambda: Pulse(app.me, 0))
    pulse.listen(frozenset({settings.router_address}))
    return GatewayService(app, http, pulse)


def main() -> None:
    settings = GatewaySettings()
    run(lambda me: build(settings, me), settings)


def _now() -> float:
    return asyncio.get_running_loop().time()
