"""`demo`: one streamed chat answer in the terminal, with its latencies."""

import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import aiohttp

from deploy.local.errors import DeployError

ANSWER_LIMIT_S = 120.0
MAX_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds since the request was sent; tokens as the server counted them."""

    first_s: float
    last_s: float
    tokens: int

    def sentence(self) -> str:
        text = f"{self.tokens} tokens, first after {self.first_s * 1000:.0f} ms"
        if self.tokens > 1 and self.last_s > self.first_s:
            rate = (self.tokens - 1) / (self.last_s - self.first_s)
            text += f", then {rate:.1f} tokens/s"
        return text


async def stream_answer(url: str, prompt: str, show: Callable[[str], None]) -> Timing:
    """`show` gets every piece of text as it comes."""
    timeout = aiohttp.ClientTimeout(total=ANSWER_LIMIT_S)
    try:
        async with aiohttp.ClientSession(url, timeout=timeout) as session:
            return await _streamed(session, prompt, show)
    except aiohttp.ClientConnectorError:
        raise DeployError(f"nobody answers at {url}. Start a cluster:  make up") from None
    except TimeoutError:
        raise DeployError(f"no answer within {ANSWER_LIMIT_S:.0f} s: see  make logs") from None


async def _streamed(
    session: aiohttp.ClientSession, prompt: str, show: Callable[[str], None]
) -> Timing:
    body = {
        "model": await _served_model(session),
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": MAX_TOKENS,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    started = time.monotonic()
    first_s = last_s = 0.0
    tokens = 0
    async with session.post("/v1/chat/completions", json=body) as reply:
        if reply.status != 200:
            raise DeployError(f"the gateway answered {reply.status}: {await reply.text()}")
        async for event in _events(reply):
            if "error" in event:
                raise DeployError(f"the stream failed: {event['error']}")
            text = _text_of(event)
            if text:
                last_s = time.monotonic() - started
                first_s = first_s or last_s
                show(text)
            usage = event.get("usage")
            if isinstance(usage, dict):
                tokens = int(usage["completion_tokens"])
    return Timing(first_s, last_s, tokens)


async def _served_model(session: aiohttp.ClientSession) -> str:
    async with session.get("/v1/models") as reply:
        listed = await reply.json()
    return str(listed["data"][0]["id"])


async def _events(reply: aiohttp.ClientResponse) -> AsyncIterator[dict[str, object]]:
    """The JSON of each `data:` line, up to [DONE]."""
    async for line in reply.content:
        if line.startswith(b"data:"):
            data = line.removeprefix(b"data:").strip()
            if data == b"[DONE]":
                return
            yield json.loads(data)


def _text_of(event: dict[str, object]) -> str:
    match event:
        case {"choices": [{"delta": {"content": str(text)}}]}:
            return text
        case _:
            return ""
