"""What operators and load balancers ask: /live, /ready, /health, /metrics, /version, /debug."""

import asyncio
from importlib.metadata import version

from aiohttp import web

from common.runtime.metrics import CONTENT_TYPE, rendered
from services.gateway.http.answer import JsonObject
from services.gateway.http.call import Call
from services.gateway.http.errors import HttpProblem
from services.gateway.recent import describe

VERSION = version("twinfleet")
_ANSWER_PREFIXES = ("chatcmpl-", "cmpl-")


async def live(call: Call) -> web.StreamResponse:
    return web.json_response({"live": True})


async def ready(call: Call) -> web.StreamResponse:
    """Also /health. 200 only when a request would go through, as the canary's did."""
    desk = call.desk
    view, refusal = desk.cluster.view, desk.refusal()
    body: JsonObject = {
        "status": "ok" if desk.ready else "unavailable",
        "reason": _reason(call) if not desk.ready else "",
        "model": None if desk.cluster.card is None else desk.cluster.card.model,
        "prefill": 0 if view is None else view.prefill,
        "decode": 0 if view is None else view.decode,
        "queued": 0 if view is None else view.queued,
        "router": refusal is None or view is not None,
        "running": len(desk.attempts),
    }
    return web.json_response(body, status=200 if desk.ready else 503)


def _reason(call: Call) -> str:
    refusal = call.desk.refusal()
    return "no request has gone through yet" if refusal is None else refusal.message


async def metrics(call: Call) -> web.StreamResponse:
    body = rendered(call.desk.metrics.registry)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})


async def show_version(call: Call) -> web.StreamResponse:
    return web.json_response({"version": VERSION})


async def debug_request(call: Call) -> web.StreamResponse:
    name = call.tail
    for prefix in _ANSWER_PREFIXES:
        name = name.removeprefix(prefix)
    exchange = call.desk.attempts.recent.find(name)
    if exchange is None:
        raise HttpProblem(404, "no recent request has this id", "request_not_found")
    return web.json_response(describe(exchange, asyncio.get_running_loop().time()))
