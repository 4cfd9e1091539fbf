"""An OpenAI-compatible server in a thread that streams words, for whoever measures one."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

from aiohttp import web


@dataclass(slots=True)
class Served:
    """One that runs, and what it was asked."""

    url: str = ""
    gap_s: float = 0.001
    """Before each token."""
    counts: bool = True
    """Whether it says how many tokens there were."""
    refuses: bool = False
    asked: list[dict[str, Any]] = field(default_factory=list)

    @property
    def prompts(self) -> list[str]:
        return [body["messages"][-1]["content"] for body in self.asked]

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked.append(body)
        if self.refuses:
            return web.json_response({"error": {"message": "full"}}, status=503)
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await reply.prepare(request)
        for number in range(body["max_tokens"]):
            await asyncio.sleep(self.gap_s)
            last = number + 1 == body["max_tokens"]
            choice = {"delta": {"content": " word"}, "finish_reason": "length" if last else None}
            await reply.write(_event({"choices": [choice]}))
        if self.counts:
            usage = {"prompt_tokens": 7, "completion_tokens": body["max_tokens"]}
            await reply.write(_event({"choices": [], "usage": usage}))
        await reply.write(b"data: [DONE]\n\n")
        return reply


def _event(body: object) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


async def _models(_request: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": "words"}]})


@contextmanager
def serving(
    gap_s: float = 0.001, *, counts: bool = True, refuses: bool = False
) -> Iterator[Served]:
    """Also for those who run a loop of their own in this thread."""
    served = Served(gap_s=gap_s, counts=counts, refuses=refuses)
    ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    thread = Thread(target=lambda: asyncio.run(_serve(served, ready)))
    thread.start()
    loop, stop = ready.result(timeout=10)
    try:
        yield served
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


async def _serve(
    served: Served, ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]
) -> None:
    app = web.Application()
    app.router.add_get("/v1/models", _models)
    app.router.add_post("/v1/chat/completions", served.complete)
    # Nobody waits for streams that nobody reads.
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    served.url = f"http://{host}:{port}"
    stop = asyncio.Event()
    ready.set_result((asyncio.get_running_loop(), stop))
    await stop.wait()
    await runner.cleanup()
