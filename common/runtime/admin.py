"""The admin port: HTTP on loopback for the supervisor, for people and for Prometheus.

/live answers 200 as long as the event loop turns, also while draining. /ready answers 200 or 503.
/status is what people look at, /metrics what Prometheus scrapes. A service adds its own actions.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Protocol

from aiohttp import web
from prometheus_client import CollectorRegistry

from common.domain.errors import InvalidRequest, ServingError
from common.domain.ids import ProcessId
from common.runtime import metrics

LOOPBACK = "127.0.0.1"
AdminAction = Callable[[], Awaitable[Mapping[str, object]]]
"""Takes nothing and returns what is answered as JSON."""


class Phase(StrEnum):
    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"


class Administered(Protocol):
    """The part of a service that the admin port shows."""

    @property
    def registry(self) -> CollectorRegistry: ...
    def ready(self) -> bool: ...
    def status(self) -> dict[str, object]: ...
    def routes(self) -> Mapping[str, AdminAction]: ...


class AdminServer:
    def __init__(self, service: Administered, me: ProcessId) -> None:
        self.phase = Phase.STARTING
        self._service = service
        self._me = me
        self._runner: web.AppRunner | None = None

    async def start(self, port: int) -> None:
        """Raises OSError if the port is taken."""
        # No grace: an open /metrics connection must not hold a stop back.
        self._runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, LOOPBACK, port).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/live", self._live)
        app.router.add_get("/ready", self._ready)
        app.router.add_get("/status", self._status)
        app.router.add_get("/metrics", self._metrics)
        for route, action in self._service.routes().items():
            method, path = route.split(" ")
            app.router.add_route(method, path, self._answer(action))
        return app

    @property
    def is_ready(self) -> bool:
        return self.phase is Phase.SERVING and self._service.ready()

    async def _live(self, request: web.Request) -> web.Response:
        return web.json_response({"live": True, "phase": self.phase})

    async def _ready(self, request: web.Request) -> web.Response:
        ready = self.is_ready
        body = {"ready": ready, "phase": self.phase}
        return web.json_response(body, status=200 if ready else 503)

    async def _status(self, request: web.Request) -> web.Response:
        started = self.phase is not Phase.STARTING
        return web.json_response(
            {
                "name": self._me.name,
                "incarnation": f"{self._me.incarnation:016x}",
                "pid": os.getpid(),
                "phase": self.phase,
                "ready": self.is_ready,
                "service": self._service.status() if started else {},
            }
        )

    async def _metrics(self, request: web.Request) -> web.Response:
        body = metrics.rendered(self._service.registry)
        return web.Response(body=body, headers={"Content-Type": metrics.CONTENT_TYPE})

    def _answer(self, action: AdminAction) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            try:
                return web.json_response(dict(await action()))
            except ServingError as error:
                status = 400 if isinstance(error, InvalidRequest) else 503
                return web.json_response({"error": str(error)}, status=status)

        return handle
