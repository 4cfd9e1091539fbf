"""Clients that stream completions of the mock engine, one by one and as a load that goes on.

The mock's output is known without a cluster, so every stream is judged: right ids so far, and how
it ended.
"""

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from common.domain.sampling import SamplingParams
from common.engine.mock import expected_output

PRINTABLE = range(32, 127)
GIVE_UP_S = 30.0


def mock_output(prompt: list[int], max_tokens: int) -> list[int]:
    """Greedy."""
    return expected_output(prompt, SamplingParams(seed=0, max_tokens=max_tokens, temperature=0.0))


def mock_prompt(length: int, seed: int) -> list[int]:
    return random.Random(seed).choices(PRINTABLE, k=length)


@dataclass(slots=True)
class Streamed:
    """One request and what came of it. Times are the loop's."""

    prompt: list[int]
    max_tokens: int
    started: float
    ended: float = 0.0
    status: int = 0
    """0: the connection broke, before or after the first byte."""
    retry_after: str | None = None
    refusal: dict[str, Any] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    """Every frame that ends something, in order: a finish reason, 'error', '[DONE]'."""

    @property
    def wrong(self) -> bool:
        """Some id is not the right one."""
        return self.ids != mock_output(self.prompt, len(self.ids))

    @property
    def exact(self) -> bool:
        whole = self.ids == mock_output(self.prompt, self.max_tokens)
        return self.status == 200 and whole and self.ends == ["length", "[DONE]"]

    @property
    def failed_cleanly(self) -> bool:
        """Refused with a delay, or begun and ended by one error."""
        if self.status == 503:
            return self.retry_after is not None and int(self.retry_after) >= 1
        return self.status == 200 and self.ends == ["error", "[DONE]"]

    def told(self) -> str:
        """For a failed assertion."""
        return f"{self.status} {len(self.ids)}/{self.max_tokens} {self.ends} {self.refusal}"


async def stream(session: aiohttp.ClientSession, asked: Streamed) -> Streamed:
    body = {
        "prompt": asked.prompt,
        "max_tokens": asked.max_tokens,
        "temperature": 0,
        "stream": True,
        "return_token_ids": True,
    }
    try:
        async with session.post("/v1/completions", json=body) as reply:
            if reply.status == 200:
                async for line in reply.content:
                    _take(asked, line.decode().strip())
            else:
                asked.retry_after = reply.headers.get("Retry-After")
                asked.refusal = await reply.json()
            asked.status = reply.status
    except aiohttp.ClientError:
        asked.status = 0
    asked.ended = asyncio.get_running_loop().time()
    return asked


def _take(asked: Streamed, line: str) -> None:
    data = line.removeprefix("data: ")
    if not data:
        return
    if data == "[DONE]":
        asked.ends.append(data)
        return
    event = json.loads(data)
    if "error" in event:
        asked.ends.append("error")
        return
    (choice,) = event["choices"]
    asked.ids += choice["token_ids"]
    if choice["finish_reason"] is not None:
        asked.ends.append(choice["finish_reason"])


class Load:
    """Clients that ask, stream to the end and ask again, until the block is left; leaving waits for
    what runs. A refused client waits a little."""

    def __init__(self, url: str, clients: int, lengths: tuple[int, ...], seed: int) -> None:
        """`lengths`: of the outputs, chosen from."""
        self._url = url
        self._clients = clients
        self._lengths = lengths
        self._random = random.Random(seed)
        self._stopping = False
        self._running: list[Streamed] = []
        self.done: list[Streamed] = []

    async def __aenter__(self) -> "Load":
        timeout = aiohttp.ClientTimeout(total=GIVE_UP_S)
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        self._session = aiohttp.ClientSession(self._url, timeout=timeout, connector=connector)
        self._tasks = [asyncio.create_task(self._client()) for _ in range(self._clients)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping = True
        try:
            await asyncio.gather(*self._tasks)
        finally:
            await self._session.close()

    def running(self) -> list[Streamed]:
        """Those that have begun and not ended."""
        return list(self._running)

    async def until(self, condition: Callable[[], bool], limit_s: float, what: str) -> None:
        """Also fails when a client did."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + limit_s
        while not condition():
            assert loop.time() < limit, f"not within {limit_s} s: {what}"
            for task in self._tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.02)

    async def _client(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopping:
            length, seed = self._random.randint(20, 400), self._random.getrandbits(32)
            asked = Streamed(
                mock_prompt(length, seed), self._random.choice(self._lengths), loop.time()
            )
            self._running.append(asked)
            await stream(self._session, asked)
            self._running.remove(asked)
            self.done.append(asked)
            if asked.status != 200:
                await asyncio.sleep(0.1)
