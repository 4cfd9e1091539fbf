"""What happens to an answer when something goes away: client, router, writer, or time."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from common.domain.errors import ErrorCode
from common.domain.finish import FinishReason
from common.wire.messages import Message
from common.wire.messages.submit import Cancel, Failed, Submit
from services.gateway.http.generate import hash_salt
from tests.support.gateway import Gateway, logprobs_of, row, running_gateway, until, with_context

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 100}
SPEAK_MUCH: dict[str, Any] = {"stream": True, "logprobs": True, "top_logprobs": 2}


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with running_gateway() as running:
        yield running


async def opened(gateway: Gateway, *first: int) -> tuple[aiohttp.ClientResponse, Submit]:
    """A stream whose first tokens are out."""

    def script(asked: Submit) -> None:
        gateway.cluster.place(asked)
        gateway.cluster.from_worker(row(asked.key, first or (65,)))

    gateway.cluster.script = script
    response = await gateway.http.post(gateway.url + CHAT, json=HELLO | {"stream": True})
    assert response.status == 200
    asked = gateway.cluster.submits.get_nowait()
    await read_frame(response)
    await read_frame(response)
    return response, asked


async def read_frame(response: aiohttp.ClientResponse) -> dict[str, Any]:
    line = await asyncio.wait_for(response.content.readuntil(b"\n\n"), 5)
    parsed: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
    return parsed


async def waiting(gateway: Gateway, *, stream: bool) -> tuple[asyncio.Task[Any], Submit]:
    """A request that is placed and waits for its first token."""
    gateway.cluster.script = gateway.cluster.place
    task = asyncio.create_task(gateway.post(CHAT, HELLO | {"stream": stream}))
    asked = await gateway.cluster.submits.get()
    await until(lambda: len(gateway.cluster.worker.port.accepted) == 1)
    return task, asked


async def test_headers_of_a_stream(gateway: Gateway) -> None:
    response, _ = await opened(gateway)
    assert response.headers["Cache-Control"] == "no-cache"
    assert response.headers["X-Accel-Buffering"] == "no"
    assert len(response.headers["X-Request-Id"]) == 24
    assert "Content-Encoding" not in response.headers
    response.close()


async def test_each_token_is_written_when_it_comes(gateway: Gateway) -> None:
    response, asked = await opened(gateway)
    for start, token in enumerate(b"BCD", start=1):
        gateway.cluster.from_worker(row(asked.key, [token], start=start))
        chunk = await read_frame(response)
        assert chunk["choices"][0]["delta"] == {"content": chr(token)}
    response.close()


async def test_the_end_mark_does_not_wait_for_a_ledger_nobody_asked_for(gateway: Gateway) -> None:
    response, asked = await opened(gateway)
    gateway.cluster.from_worker(row(asked.key, [66], start=1, finish=FinishReason.LENGTH))
    before = time.monotonic()
    assert (await response.content.read()).endswith(b"data: [DONE]\n\n")
    assert time.monotonic() - before < 1
    # The attempt is still waited for, and not cancelled.
    assert len(gateway.app.attempts) == 1
    gateway.cluster.finish(asked)
    await until(lambda: len(gateway.app.attempts) == 0)
    assert gateway.counter("cancelled_total") == 0
    assert gateway.counter("requests_total", endpoint="chat", outcome="finished") == 1


@pytest.mark.parametrize("phase", ["queued", "placed", "streaming"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_cancels_everywhere_at_once(
    gateway: Gateway, phase: str, stream: bool
) -> None:
    cluster = gateway.cluster
    task = asyncio.create_task(gateway.post(CHAT, HELLO | {"stream": stream}))
    asked = await cluster.submits.get()
    if phase != "queued":
        cluster.place(asked)
        await until(lambda: len(cluster.worker.port.accepted) == 1)
    if phase == "streaming":
        cluster.from_worker(row(asked.key, [65]))
        await until(lambda: gateway.counter("output_tokens_total") == 3)
    task.cancel()
    await until(lambda: len(gateway.app.attempts) == 0)
    await until(lambda: Cancel(asked.key) in cluster.router.heard)
    if phase != "queued":
        await until(lambda: Cancel(asked.key) in cluster.worker.heard)
    await until(lambda: gateway.app.desk.calls == 0)
    assert gateway.counter("disconnects_total") == 1
    assert gateway.counter("requests_total", endpoint="chat", outcome="cancelled") == 1
    assert gateway.counter("requests_running") == 0


async def test_a_client_that_reads_nothing_is_cut_and_its_worker_drained() -> None:
    tokens, rows = 1000, 40
    async with running_gateway(with_context(100_000)) as gateway:
        gateway.app.desk.write_limit_s = 1.0
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", int(gateway.url.rpartition(":")[2])))
            deaf.sendall(raw_post(HELLO | SPEAK_MUCH | {"max_tokens": tokens * rows}))
            asked = await gateway.cluster.submits.get()
            gateway.cluster.place(asked)
            exchange = gateway.app.attempts.recent.find(asked.key.request)
            assert exchange is not None
            # About 10 MB of answer, more than the buffers in between hold.
            for number in range(rows - 1):
                logprobs = [logprobs_of(65)] * tokens
                batch = row(asked.key, [65] * tokens, start=number * tokens, logprobs=logprobs)
                gateway.cluster.from_worker(batch)
                await asyncio.sleep(0.002)
            await until(lambda: Cancel(asked.key) in gateway.cluster.worker.heard, limit_s=20)
            assert exchange.completion_tokens > rows * tokens // 2
            await until(lambda: gateway.counter("disconnects_total") == 1)
            await until(lambda: gateway.app.desk.calls == 0)


def raw_post(body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("code", "retryable", "status", "text_code"),
    [
        (ErrorCode.OVERLOADED, True, 503, "server_is_overloaded"),
        (ErrorCode.NO_WORKER, True, 503, "server_is_overloaded"),
        (ErrorCode.WORKER_LOST, True, 503, "worker_lost"),
        (ErrorCode.CAPACITY, False, 503, "insufficient_capacity"),
        (ErrorCode.DEADLINE, False, 504, "deadline_exceeded"),
        (ErrorCode.INTERNAL, False, 500, "internal_error"),
        (ErrorCode.INVALID_REQUEST, False, 400, None),
        (ErrorCode.CONTEXT_OVERFLOW, False, 400, "context_length_exceeded"),
    ],
)
async def test_a_failure_before_the_first_token_has_a_status_of_its_own(
    gateway: Gateway, stream: bool, code: ErrorCode, retryable: bool, status: int, text_code: object
) -> None:
    def script(asked: Submit) -> None:
        gateway.cluster.fail(asked, code, retryable=retryable)

    gateway.cluster.script = script
    got, body, headers = await gateway.post(CHAT, HELLO | {"stream": stream})
    assert (got, body["error"]["code"]) == (status, text_code)
    assert headers.get("Retry-After") == ("3" if retryable else None)
    assert headers.get("retry-after-ms") == ("2500" if retryable else None)
    if status >= 500:
        assert headers["x-should-retry"] == ("true" if retryable else "false")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_writer_that_dies_before_the_first_token_is_a_503(
    gateway: Gateway, stream: bool
) -> None:
    task, _ = await waiting(gateway, stream=stream)
    gateway.cluster.kill_worker()
    status, body, headers = await task
    assert status == 503
    assert body["error"]["code"] == "worker_lost"
    assert "Retry-After" in headers


async def test_a_router_that_dies_before_placing_is_a_503(gateway: Gateway) -> None:
    task = asyncio.create_task(gateway.post(CHAT, HELLO))
    await gateway.cluster.submits.get()
    gateway.cluster.kill_router()
    status, body, headers = await task
    assert status == 503
    assert body["error"]["code"] == "server_is_overloaded"
    assert "Retry-After" in headers


async def test_a_stream_outlives_the_router(gateway: Gateway) -> None:
    response, asked = await opened(gateway)
    gateway.cluster.kill_router()
    await asyncio.sleep(0.05)
    gateway.cluster.from_worker(row(asked.key, [66], start=1, finish=FinishReason.LENGTH))
    assert (await response.content.read()).endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("how", ["writer dies", "writer fails", "gap"])
async def test_a_failure_in_mid_stream_is_one_frame_and_one_end(gateway: Gateway, how: str) -> None:
    response, asked = await opened(gateway)
    match how:
        case "writer dies":
            gateway.cluster.kill_worker()
        case "writer fails":
            gateway.cluster.from_worker(Failed(asked.key, ErrorCode.WORKER_LOST, "no"))
        case _:
            gateway.cluster.from_worker(row(asked.key, [66], start=5))
    rest = (await asyncio.wait_for(response.content.read(), 5)).decode().split("\n\n")
    assert len(rest) == 3
    error = json.loads(rest[0].removeprefix("data: "))["error"]
    assert error["type"] == "server_error"
    assert error["code"] in (500, 503)
    assert error["param"] is None
    assert rest[1:] == ["data: [DONE]", ""]
    assert gateway.counter("requests_total", endpoint="chat", outcome="failed") == 1


async def test_repeated_tokens_are_not_said_twice(gateway: Gateway) -> None:
    response, asked = await opened(gateway, *b"AB")
    gateway.cluster.from_worker(row(asked.key, list(b"AB")))
    gateway.cluster.from_worker(row(asked.key, list(b"BC"), start=1, finish=FinishReason.LENGTH))
    rest = (await response.content.read()).decode()
    assert rest.count('"content":"') == 1
    assert '"content":"C"' in rest


async def test_numbers_after_one_request(gateway: Gateway) -> None:
    before = gateway.counter("prompt_tokens_total")

    def script(asked: Submit) -> None:
        gateway.cluster.play(asked, [list(b"abcd")], FinishReason.LENGTH)

    gateway.cluster.script = script
    await gateway.post(CHAT, HELLO)
    assert gateway.counter("prompt_tokens_total") - before == 21
    assert gateway.counter("output_tokens_total") == 4 + 2
    assert gateway.counter("cached_tokens_total") == 16 + 16
    assert gateway.counter("time_to_first_token_seconds_count") == 2
    assert gateway.counter("inter_token_latency_seconds_count") == 3 + 1
    assert gateway.counter("request_duration_seconds_count") == 2


def test_no_tenant_is_a_clients_salt() -> None:
    salts = {
        hash_salt(tenant, salt)
        for tenant in ("", "x", "x;salt:1:y", "y")
        for salt in (None, "x", "y", ";salt:1:y")
    }
    assert len(salts) == 16
    assert hash_salt("", None) == ""


class Writer:
    """A worker's link whose messages all come in one turn of the loop."""

    def __init__(self, gateway: Gateway) -> None:
        self.peer = gateway.cluster.worker.ref.id
        self._app = gateway.app

    def say(self, *messages: Message) -> None:
        for message in messages:
            self._app.on_message(self, message)

    def send(self, message: Message) -> None:
        """It wants no answers."""


async def test_a_failure_right_behind_the_first_token_still_has_its_status(
    gateway: Gateway,
) -> None:
    def script(asked: Submit) -> None:
        failed = Failed(asked.key, ErrorCode.WORKER_LOST, "gone")
        Writer(gateway).say(row(asked.key, [65]), failed)

    gateway.cluster.script = script
    assert (await gateway.post(CHAT, HELLO | {"stream": True}))[0] == 503
