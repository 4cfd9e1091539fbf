"""What the chunks of one streamed answer say, written into its record. Pure: times are arguments.

A chunk has content when it brings text, reasoning or a piece of a tool call. Everything else (the
role, the end, usage) is no token, and does not count as the first one.
"""

import hashlib
import json
from collections.abc import Mapping

from loadtest.record import Outcome, Record

DONE = b"[DONE]"
_OTHER_CONTENT = ("reasoning_content", "reasoning", "tool_calls")
_SERVER_SAYS = ("ledger", "metrics")
ERROR_CHARACTERS = 500


class Answer:
    """`text` is what the next turn of a session repeats: without reasoning."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._texts: list[str] = []
        self._counted = 0
        self.done = False

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def take(self, data: bytes, at_s: float) -> bool:
        """One event; True if it brought content. Raises ValueError on what is no chunk."""
        if data == DONE:
            self.done = True
            return False
        chunk = json.loads(data)
        if not isinstance(chunk, dict):
            raise ValueError("an event is no JSON object")
        if chunk.get("error"):
            self._record.error = error_text(chunk) or "an error without a message"
            return False
        content = self._take_choice(chunk)
        if content:
            self._record.chunks_s.append(at_s)
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._take_usage(usage, content)
        for key in _SERVER_SAYS:
            said = chunk.get(key)
            if isinstance(said, dict):
                self._record.server.update(said)
        return content

    def _take_choice(self, chunk: Mapping[str, object]) -> bool:
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return False
        choice = choices[0]
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self._record.finish = reason
        delta = choice.get("delta")
        text = delta.get("content") if isinstance(delta, dict) else choice.get("text")
        if isinstance(text, str) and text:
            self._texts.append(text)
            return True
        return isinstance(delta, dict) and any(map(delta.get, _OTHER_CONTENT))

    def _take_usage(self, usage: Mapping[str, object], content: bool) -> None:  # noqa: FBT001
        record = self._record
        record.prompt_tokens = _count(usage, "prompt_tokens", record.prompt_tokens)
        record.output_tokens = _count(usage, "completion_tokens", record.output_tokens)
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict):
            record.cached_tokens = _count(details, "cached_tokens", record.cached_tokens)
        if content and record.output_tokens is not None:
            record.chunk_tokens.append(record.output_tokens - self._counted)
            self._counted = record.output_tokens

    def close(self) -> None:
        """The stream is over."""
        record = self._record
        record.text_digest = hashlib.sha256(self.text.encode(errors="surrogatepass")).hexdigest()[
            :16
        ]
        if len(record.chunk_tokens) != len(record.chunks_s) or 0 in record.chunk_tokens:
            # Counted now and then only, which says nothing of single chunks.
            record.chunk_tokens = []
        if record.error:
            record.outcome = Outcome.FAILED
        elif record.finish or (self.done and record.chunks_s):
            record.outcome = Outcome.FINISHED
        else:
            record.outcome = Outcome.CUT
            record.error = "the stream ended without a finish reason"


def _count(numbers: Mapping[str, object], key: str, otherwise: int | None) -> int | None:
    value = numbers.get(key)
    return value if isinstance(value, int) and value >= 0 else otherwise


def error_text(body: object) -> str:
    """Of an error in OpenAI's form, or of the flat one that some servers use."""
    match body:
        case {"error": {"message": str(message)}} | {"error": str(message)}:
            return message[:ERROR_CHARACTERS]
        case {"message": str(message)}:
            return message[:ERROR_CHARACTERS]
        case _:
            return ""
