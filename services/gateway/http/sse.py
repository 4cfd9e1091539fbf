"""Server-sent events as every client reads them: one `data:` line, two line feeds, `[DONE]`."""

import json

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}
DONE = b"data: [DONE]\n\n"
# json.dumps would build an encoder for every frame.
_encode = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
).encode


def frame(value: dict[str, object]) -> bytes:
    """JSON escapes line feeds, so a frame cannot be broken from inside."""
    return b"data: " + _encode(value).encode() + b"\n\n"
