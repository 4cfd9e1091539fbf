"""A server that streams at a steady pace and knows when it wrote what: it measures the measurer.

Answers every POST with `max_tokens` chunks, one each `1 / rate` s on an absolute schedule, and says
in the last one, under `metrics`, when each was written. It has no model and hardly a protocol, so
that its own work on a core is small beside the client's. For loopback alone.

    python -m loadtest.pacing_server PORT RATE
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence

import uvloop

HOST = "127.0.0.1"
FIRST_AFTER_S = 0.05
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_MODELS = json.dumps({"object": "list", "data": [{"id": "pacing"}]}).encode()


def _frame(event: bytes) -> bytes:
    data = b"data: " + event + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


def _chunk(text: str, **more: object) -> bytes:
    """About as long as a chunk of a real server."""
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None}
    head = {"id": "chatcmpl-" + "0" * 32, "object": "chat.completion.chunk", "created": 0}
    return json.dumps(head | {"model": "pacing", "choices": [choice]} | more).encode()


_TOKEN = _frame(_chunk(" token"))


class PacingServer:
    def __init__(self, rate: float) -> None:
        self._gap_s = 1 / rate

    async def serve(self, port: int) -> None:
        server = await asyncio.start_server(self._connection, HOST, port, backlog=4096)
        async with server:
            print(f"serving on {HOST}:{port}", flush=True)
            await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await self._answer(head, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is done
        finally:
            writer.close()

    async def _answer(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        length = _content_length(head)
        if not length:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(_MODELS), _MODELS))
            return
        tokens = int(json.loads(await reader.readexactly(length))["max_tokens"])
        writer.write(_HEAD)
        written = await self._stream(tokens, writer)
        usage = {"prompt_tokens": 1, "completion_tokens": tokens}
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
        last = end | {"usage": usage, "metrics": {"written_s": written}}
        writer.write(_frame(json.dumps(last).encode()) + _frame(b"[DONE]") + b"0\r\n\r\n")

    async def _stream(self, tokens: int, writer: asyncio.StreamWriter) -> list[float]:
        """When each was written, of the clock that all processes of a machine share."""
        began = time.monotonic() + FIRST_AFTER_S
        written = []
        for number in range(tokens):
            late = time.monotonic() - (began + number * self._gap_s)
            await asyncio.sleep(max(0.0, -late))
            written.append(time.monotonic())
            writer.write(_TOKEN)
        return written


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def main(arguments: Sequence[str]) -> None:
    port, rate = arguments
    uvloop.run(PacingServer(float(rate)).serve(int(port)))


if __name__ == "__main__":
    main(sys.argv[1:])
