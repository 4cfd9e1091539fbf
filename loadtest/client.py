"""The HTTP client: one turn asked, its record filled in. Never retries, so that nothing is hidden.

The one place that knows aiohttp's responses. The moment of a chunk is when its bytes were read from
the connection, before anything is parsed.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

import aiohttp

from loadtest.answer import ERROR_CHARACTERS, Answer, error_text
from loadtest.errors import LoadTestError
from loadtest.record import Outcome, Record
from loadtest.scenario import Request
from loadtest.session import Message, Turn
from loadtest.sse import EventStream

KEEP_ALIVE_S = 4.0
"""Shorter than uvicorn's 5 s: a connection that the server is about to close must not be used."""
PATHS = {"chat": "chat/completions", "completions": "completions"}
_LONGEST_ERROR_BYTES = 64 << 10


def open_session(base_url: str, api_key: str = "") -> aiohttp.ClientSession:
    """For any number of connections. `base_url` may end in /v1 or not."""
    root = base_url.rstrip("/").removesuffix("/v1") + "/v1/"
    return aiohttp.ClientSession(
        root,
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
        headers={"Authorization": f"Bearer {api_key}"} if api_key else None,
        auto_decompress=False,
        skip_auto_headers=("Accept-Encoding",),
    )


async def served_model(session: aiohttp.ClientSession) -> str:
    """The first of the models that the server lists. Raises LoadTestError."""
    try:
        async with session.get("models") as reply:
            status, text = reply.status, await reply.text(errors="replace")
    except (aiohttp.ClientError, TimeoutError) as error:
        raise LoadTestError(f"the server does not say what it serves: {error}") from None
    try:
        listed = json.loads(text)
    except ValueError:
        listed = None
    match listed:
        case {"data": [{"id": str(model)}, *_]}:
            return model
        case _:
            why = error_text(listed) or f"HTTP status {status}"
            raise LoadTestError(f"the server lists no model ({why}): give --model")


class Client:
    """Asks one server for one model. `now` in seconds since the run began; `on_content` is called
    for every chunk with content."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        model: str,
        request: Request,
        now: Callable[[], float],
        on_content: Callable[[], object],
    ) -> None:
        self._session = session
        self._model = model
        self._request = request
        self._now = now
        self._on_content = on_content
        self._path = PATHS[request.endpoint]

    async def ask(self, conversation: Sequence[Message], turn: Turn, record: Record) -> str:
        """The answer's text. Whatever goes wrong stands in the record."""
        answer = Answer(record)
        record.asked_digest = _digest(conversation)
        body = json.dumps(self.body(conversation, turn)).encode()
        headers = {"Content-Type": "application/json", "X-Request-Id": record.request_id}
        record.sent_s = self._now()
        try:
            async with asyncio.timeout(turn.leave_after_s or self._request.limit_s):
                async with self._session.post(self._path, data=body, headers=headers) as reply:
                    record.status = reply.status
                    if reply.status != 200:
                        record.outcome = Outcome.REJECTED
                        record.error = await _refusal(reply)
                    elif await self._read(reply, turn, answer, record):
                        answer.close()
                    else:
                        record.outcome = Outcome.LEFT
                        # Closed, not given back: the rest of the answer is still on its way.
                        reply.close()
        except TimeoutError:
            if turn.leave_after_s:
                record.outcome = Outcome.LEFT
            else:
                record.error = f"no end within {self._request.limit_s:g} s"
        except aiohttp.ClientPayloadError as error:
            record.outcome, record.error = Outcome.CUT, _text(error)
        except (aiohttp.ClientError, ConnectionError, ValueError) as error:
            record.error = _text(error)
        record.ended_s = self._now()
        return answer.text

    def body(self, conversation: Sequence[Message], turn: Turn) -> dict[str, object]:
        request = self._request
        options = {"include_usage": True}
        if request.count_chunks:
            options["continuous_usage_stats"] = True
        body: dict[str, object] = {
            "model": self._model,
            "max_tokens": turn.max_tokens,
            "temperature": request.temperature,
            "stream": True,
            "stream_options": options,
        }
        if request.endpoint == "chat":
            body["messages"] = [asdict(message) for message in conversation]
        else:
            body["prompt"] = "".join(message.content for message in conversation)
        if request.ignore_eos:
            body["ignore_eos"] = True
        if request.ledger:
            body["return_ledger"] = True
        return body | request.body

    async def _read(
        self, reply: aiohttp.ClientResponse, turn: Turn, answer: Answer, record: Record
    ) -> bool:
        """False: the client left."""
        if not reply.content_type.startswith("text/event-stream"):
            raise ValueError(f"the server did not stream, but sent {reply.content_type}")
        events = EventStream()
        while received := await reply.content.readany():
            at_s = self._now()
            for data in events.feed(received):
                if answer.take(data, at_s):
                    self._on_content()
            if turn.leave_after_tokens and len(record.chunks_s) >= turn.leave_after_tokens:
                return False
            if turn.read_bytes_s:
                await asyncio.sleep(len(received) / turn.read_bytes_s)
        return True


def _digest(conversation: Sequence[Message]) -> str:
    whole = json.dumps([(message.role, message.content) for message in conversation])
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


async def _refusal(reply: aiohttp.ClientResponse) -> str:
    raw = await reply.content.read(_LONGEST_ERROR_BYTES)
    try:
        message = error_text(json.loads(raw))
    except ValueError:
        message = raw.decode(errors="replace")[:ERROR_CHARACTERS]
    return message or f"HTTP status {reply.status}"


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]
