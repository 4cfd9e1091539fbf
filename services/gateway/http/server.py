"""The HTTP server: routes, the request boundary, the listening socket.

Every error of a request is answered here, as JSON, and nowhere else. `handler_cancellation` is on:
a client that leaves cancels its handler, and the handler its attempts.
"""

import asyncio

import structlog
from aiohttp import web

from common.domain.errors import ServingError
from services.gateway.http.call import Call, Desk, clean_id
from services.gateway.http.chat import chat_completions
from services.gateway.http.completions import completions
from services.gateway.http.errors import CRASHED, HttpError, HttpProblem, http_error
from services.gateway.http.health import debug_request, live, metrics, ready, show_version
from services.gateway.http.models import get_model, list_models
from services.gateway.http.routing import Route, find_route
from services.gateway.http.tokenize import detokenize, tokenize

MAX_BODY_BYTES = 16 * 1024 * 1024
log = structlog.get_logger()

ROUTES = (
    Route("POST", "/v1/chat/completions", chat_completions),
    Route("POST", "/v1/completions", completions),
    Route("GET", "/v1/models", list_models),
    Route("GET", "/v1/models/*", get_model),
    Route("POST", "/tokenize", tokenize),
    Route("POST", "/detokenize", detokenize),
    Route("GET", "/health", ready),
    Route("GET", "/ready", ready),
    Route("GET", "/live", live),
    Route("GET", "/metrics", metrics),
    Route("GET", "/version", show_version),
    Route("GET", "/debug/requests/*", debug_request),
)
_GENERATES = {"/v1/chat/completions": "chat", "/v1/completions": "completions"}


class _Front:
    """The one aiohttp handler."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        own = self._desk.new_id()
        client = clean_id(request.headers.get("X-Request-Id")) or own
        call = Call(self._desk, request, own, client, asyncio.get_running_loop().time())
        self._desk.calls += 1
        try:
            return await self._handle(call)
        except ServingError as error:
            return self._refuse(call, http_error(error))
        except web.HTTPException as error:
            # aiohttp's own refusals: a body beyond the limit, a bad content coding.
            return self._refuse(call, http_error(HttpProblem(error.status, error.reason)))
        except Exception:
            log.exception("request_crashed", request_id=call.id)
            return self._refuse(call, CRASHED)
        finally:
            self._desk.calls -= 1

    async def _handle(self, call: Call) -> web.StreamResponse:
        route, call.tail = find_route(ROUTES, call.request.method, call.request.path)
        call.endpoint = _GENERATES.get(route.path, "")
        return await route.handler(call)

    def _refuse(self, call: Call, error: HttpError) -> web.Response:
        if call.started and call.request.transport is not None:
            # Half an answer is out: all that is left is to let the client see it end early.
            call.request.transport.abort()
        return _answer(call, error)


def _answer(call: Call, error: HttpError) -> web.Response:
    if call.endpoint and not call.generating:
        outcome = "invalid" if error.status < 500 else "refused"
        call.desk.metrics.requests.labels(call.endpoint, outcome).inc()
        log.info(
            "request_refused",
            request_id=call.id,
            client_request_id=call.client_id,
            endpoint=call.endpoint,
            status=error.status,
            code=error.code,
            param=error.param,
        )
    return web.json_response(
        error.body(), status=error.status, headers=call.headers | error.headers
    )


def application(desk: Desk) -> web.Application:
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.router.add_route("*", "/{tail:.*}", _Front(desk).__call__)
    return app


class HttpServer:
    def __init__(self, desk: Desk, host: str, port: int) -> None:
        self._runner = web.AppRunner(
            application(desk), handler_cancellation=True, access_log=None, shutdown_timeout=1.0
        )
        self._host = host
        self.port = port
        """Once started the real one, if 0 was asked for."""

    async def start(self) -> None:
        """Raises OSError if the port is taken."""
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        await self._runner.cleanup()
