"""One turn against a real server on loopback that behaves in every way there is."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from loadtest.client import Client, open_session, served_model
from loadtest.errors import LoadTestError
from loadtest.record import Outcome, Record
from loadtest.scenario import Request
from loadtest.session import Message, Turn

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CONVERSATION = (Message("system", "Be short."), Message("user", " Why?"))
TURN = Turn(CONVERSATION, max_tokens=4)


def chunk(text: str, finish: str | None = None) -> bytes:
    event = {"choices": [{"delta": {"content": text}, "finish_reason": finish}]}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\n'
WHOLE = (chunk("a"), chunk("b", "length"), USAGE, b"data: [DONE]\n\n")


async def streamed(request: web.Request, *parts: bytes, gap_s: float = 0.0) -> web.StreamResponse:
    reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await reply.prepare(request)
    for part in parts:
        await reply.write(part)
        await asyncio.sleep(gap_s)
    return reply


class Asked:
    """A server of one handler, and what was asked of it."""

    def __init__(self, handler: Handler) -> None:
        self.bodies: list[dict[str, object]] = []
        self.headers: list[Mapping[str, str]] = []
        self._handler = handler
        app = web.Application()
        app.router.add_post("/v1/{tail:.*}", self._answer)
        self.server = TestServer(app)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.json())
        self.headers.append(request.headers)
        return await self._handler(request)


async def ask(
    handler: Handler, turn: Turn = TURN, request: Request | None = None
) -> tuple[Record, Asked, int]:
    """The record, the server, and how many chunks had content."""
    asked = Asked(handler)
    record = Record("main", 0, 0, scheduled_s=0.0, request_id="run-main-0-0")
    contents: list[None] = []
    loop = asyncio.get_running_loop()
    await asked.server.start_server()
    try:
        async with open_session(str(asked.server.make_url("/")), "key") as session:
            client = Client(
                session, "m", request or Request(), loop.time, lambda: contents.append(None)
            )
            await client.ask(CONVERSATION, turn, record)
    finally:
        await asked.server.close()
    return record, asked, len(contents)


async def test_a_whole_answer() -> None:
    record, asked, contents = await ask(lambda request: streamed(request, *WHOLE))
    assert record.outcome is Outcome.FINISHED
    assert (record.status, record.output_tokens, contents) == (200, 2, 2)
    assert record.sent_s < record.chunks_s[0] <= record.chunks_s[1] <= record.ended_s
    assert asked.headers[0]["X-Request-Id"] == "run-main-0-0"
    assert asked.headers[0]["Authorization"] == "Bearer key"


async def test_equal_conversations_have_equal_digests() -> None:
    one, _, _ = await ask(lambda request: streamed(request, *WHOLE))
    two, _, _ = await ask(
        lambda request: streamed(request, *WHOLE), request=Request(endpoint="completions")
    )
    other = Record("main", 0, 0, scheduled_s=0.0)
    async with open_session("http://127.0.0.1:9") as session:
        client = Client(session, "m", Request(), asyncio.get_running_loop().time, lambda: None)
        await client.ask(CONVERSATION[:1], TURN, other)
    assert one.asked_digest == two.asked_digest != other.asked_digest


async def test_what_is_asked_for() -> None:
    _, asked, _ = await ask(lambda request: streamed(request, *WHOLE))
    assert asked.bodies == [
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": " Why?"},
            ],
            "max_tokens": 4,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True},
            "ignore_eos": True,
        }
    ]


async def test_completions_and_everything_that_can_be_asked_for() -> None:
    request = Request(
        endpoint="completions",
        temperature=0.5,
        ignore_eos=False,
        count_chunks=True,
        ledger=True,
        body={"seed": 3},
    )
    _, asked, _ = await ask(lambda r: streamed(r, *WHOLE), request=request)
    body = asked.bodies[0]
    assert body["prompt"] == "Be short. Why?"
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert (body["temperature"], body["seed"], body["return_ledger"]) == (0.5, 3, True)
    assert "ignore_eos" not in body


async def test_a_refusal_with_its_reason() -> None:
    async def busy(request: web.Request) -> web.Response:
        return web.json_response({"error": {"message": "the queue is full"}}, status=503)

    record, asked, _ = await ask(busy)
    assert (record.outcome, record.status) == (Outcome.REJECTED, 503)
    assert record.error == "the queue is full"
    assert len(asked.bodies) == 1, "nothing is tried again"


async def test_a_refusal_that_is_no_json() -> None:
    async def broken(request: web.Request) -> web.Response:
        return web.Response(text="<h1>Bad gateway</h1>", status=502)

    record, _, _ = await ask(broken)
    assert (record.status, record.error) == (502, "<h1>Bad gateway</h1>")


async def test_a_connection_that_breaks_in_the_middle() -> None:
    async def breaks(request: web.Request) -> web.StreamResponse:
        reply = await streamed(request, chunk("a"), chunk("b"), gap_s=0.01)
        assert request.transport is not None
        request.transport.abort()
        return reply

    record, _, _ = await ask(breaks)
    assert record.outcome is Outcome.CUT
    assert len(record.chunks_s) == 2
    assert record.error


async def test_a_stream_without_an_end() -> None:
    record, _, _ = await ask(lambda request: streamed(request, chunk("a")))
    assert record.outcome is Outcome.CUT


async def test_an_answer_that_is_no_stream() -> None:
    async def whole(request: web.Request) -> web.Response:
        return web.json_response({"choices": []})

    record, _, _ = await ask(whole)
    assert record.outcome is Outcome.FAILED
    assert "did not stream" in record.error


async def test_an_event_that_is_no_json() -> None:
    record, _, _ = await ask(lambda request: streamed(request, b"data: {\n\n"))
    assert record.outcome is Outcome.FAILED


async def test_nobody_there() -> None:
    record = Record("main", 0, 0, scheduled_s=0.0)
    async with open_session("http://127.0.0.1:9") as session:
        client = Client(session, "m", Request(), asyncio.get_running_loop().time, lambda: None)
        await client.ask(CONVERSATION, TURN, record)
    assert record.outcome is Outcome.FAILED
    assert "Connect" in record.error
    assert record.ended_s >= record.sent_s


async def test_a_server_that_is_silent_for_too_long() -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        return await streamed(request, chunk("a"), gap_s=5.0)

    record, _, _ = await ask(silent, request=Request(limit_s=0.05))
    assert record.outcome is Outcome.FAILED
    assert "no end within 0.05 s" in record.error


async def endless(request: web.Request) -> web.StreamResponse:
    return await streamed(request, *[chunk("a")] * 1000, gap_s=0.005)


async def test_a_client_that_leaves_after_tokens() -> None:
    record, _, _ = await ask(endless, Turn(CONVERSATION, 1000, leave_after_tokens=3))
    assert record.outcome is Outcome.LEFT
    assert 3 <= len(record.chunks_s) < 100


async def test_a_client_that_leaves_after_a_time() -> None:
    record, _, _ = await ask(endless, Turn(CONVERSATION, 1000, leave_after_s=0.05))
    assert record.outcome is Outcome.LEFT
    assert record.ended_s - record.sent_s < 2


async def test_a_slow_reader() -> None:
    turn = Turn(CONVERSATION, 4, read_bytes_s=2000)
    record, _, _ = await ask(lambda request: streamed(request, *WHOLE), turn)
    assert record.outcome is Outcome.FINISHED
    assert record.ended_s - record.sent_s > sum(map(len, WHOLE)) / 2000 * 0.9


@pytest.fixture
async def listing() -> AsyncIterator[TestServer]:
    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m"}, {"id": "n"}]})

    app = web.Application()
    app.router.add_get("/v1/models", models)
    async with TestServer(app) as server:
        yield server


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
async def test_the_model_is_the_first_of_the_list(listing: TestServer, path: str) -> None:
    async with open_session(str(listing.make_url("")).rstrip("/") + path) as session:
        assert await served_model(session) == "m"


async def test_nobody_to_ask_for_the_model() -> None:
    async with open_session("http://127.0.0.1:9") as session:
        with pytest.raises(LoadTestError, match=r"127\.0\.0\.1:9"):
            await served_model(session)


async def test_a_server_without_a_list_of_models(listing: TestServer) -> None:
    async with open_session(str(listing.make_url("/elsewhere"))) as session:
        with pytest.raises(LoadTestError, match="give --model"):
            await served_model(session)
