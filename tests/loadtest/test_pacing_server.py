"""The server that measures the measurer keeps its pace and knows when it wrote what."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import aiohttp

from deploy.local.ports import free_ports
from loadtest.pacing_server import FIRST_AFTER_S, HOST, PacingServer


@asynccontextmanager
async def pacing(rate: float) -> AsyncIterator[aiohttp.ClientSession]:
    (port,) = free_ports(1)
    task = asyncio.create_task(PacingServer(rate).serve(port))
    try:
        async with aiohttp.ClientSession(f"http://{HOST}:{port}") as session:
            async with asyncio.timeout(5):
                while not await _listens(session):
                    await asyncio.sleep(0)
            yield session
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _listens(session: aiohttp.ClientSession) -> bool:
    try:
        async with session.get("/v1/models") as reply:
            return bool((await reply.json())["data"] == [{"id": "pacing"}])
    except aiohttp.ClientConnectorError:
        return False


async def events(session: aiohttp.ClientSession, tokens: int) -> list[str]:
    async with session.post("/v1/chat/completions", json={"max_tokens": tokens}) as reply:
        assert reply.content_type == "text/event-stream"
        text = await reply.text()
    return [part.removeprefix("data: ") for part in text.split("\n\n") if part]


async def test_it_streams_as_many_tokens_as_asked_and_says_when_it_wrote_each() -> None:
    async with pacing(rate=200.0) as session:
        began = time.monotonic()
        *tokens, last, done = await events(session, 5)
        assert done == "[DONE]"
        assert len(tokens) == 5
        assert json.loads(tokens[0])["choices"][0]["delta"] == {"content": " token"}
        told = json.loads(last)
        assert told["usage"]["completion_tokens"] == 5
        assert told["choices"][0]["finish_reason"] == "length"
        written = told["metrics"]["written_s"]
        assert len(written) == 5
        assert all(before < after for before, after in pairwise(written))
        # On a schedule: never early, whatever a machine makes late.
        assert written[0] >= began + FIRST_AFTER_S - 0.001
        assert written[4] >= began + FIRST_AFTER_S + 4 / 200 - 0.001


async def test_a_connection_serves_one_answer_after_another() -> None:
    async with pacing(rate=1000.0) as session:
        for tokens in (1, 3):
            assert len(await events(session, tokens)) == tokens + 2


async def test_streams_run_beside_each_other() -> None:
    async with pacing(rate=100.0) as session:
        began = time.monotonic()
        found = await asyncio.gather(*(events(session, 10) for _ in range(4)))
        assert time.monotonic() - began < 4 * (FIRST_AFTER_S + 10 / 100)
        assert [len(one) for one in found] == [12] * 4
