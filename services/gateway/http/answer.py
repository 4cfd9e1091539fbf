"""Pieces that the answers of both generating endpoints share."""

from dataclasses import asdict, dataclass
from typing import Protocol

from common.domain.finish import FinishReason
from common.domain.ledger import Ledger
from services.gateway.exchange import Exchange
from services.gateway.text_output import Delta, Finish

JsonObject = dict[str, object]
LOWEST_LOGPROB = -9999.0
"""JSON has no minus infinity."""


@dataclass(frozen=True, slots=True)
class Head:
    """The fields that every chunk of one answer repeats."""

    id: str
    created: int
    model: str

    def wrap(self, kind: str, choices: list[JsonObject]) -> JsonObject:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


class Renderer(Protocol):
    """How one endpoint spells an answer."""

    def opening(self, choices: int) -> list[JsonObject]:
        """Chunks before any text."""

    def chunks(self, index: int, delta: Delta) -> list[JsonObject]: ...

    def usage_chunk(self, usage: JsonObject) -> JsonObject: ...

    def whole(self, deltas: list[Delta], usage: JsonObject) -> JsonObject:
        """The answer in one piece; a delta a choice, in index order."""


def usage(exchange: Exchange, ledger: Ledger | None) -> JsonObject:
    """`ledger` is None while the request still runs: what was cached is not known yet."""
    prompt, output = exchange.prompt_tokens, exchange.completion_tokens
    numbers: JsonObject = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
    }
    if ledger is not None:
        cached = min(ledger.cached_tokens, prompt)
        numbers["prompt_tokens_details"] = {"cached_tokens": cached}
    return numbers


def ledger_columns(
    exchange: Exchange,
    ledger: Ledger,
    asked: bool,  # noqa: FBT001  the client's own flag
) -> JsonObject:
    """What `return_ledger` adds beside the usage of an answer that has ended: the sum over its
    streams, and who served them. Null where a worker's part did not come in time."""
    if not asked:
        return {}
    if any(stream.ledger is None for stream in exchange.streams):
        return {"ledger": None}
    workers: JsonObject = {
        "prefill_worker": exchange.prefill_workers,
        "decode_worker": exchange.writers,
    }
    return {"ledger": asdict(ledger) | workers}


def finish_name(finish: Finish | None) -> str | None:
    if finish is None:
        return None
    return "length" if finish.reason is FinishReason.LENGTH else "stop"


def token_ids(delta: Delta, asked: bool) -> JsonObject:  # noqa: FBT001  the client's own flag
    """What `return_token_ids` adds to a choice."""
    return {"token_ids": delta.ids} if asked else {}


def finite(logprob: float) -> float:
    return max(logprob, LOWEST_LOGPROB) if logprob == logprob else LOWEST_LOGPROB
