"""The last exchanges by id, for /debug/requests: bounded, without prompts and without text."""

from collections import OrderedDict
from dataclasses import asdict

from services.gateway.exchange import Exchange
from services.gateway.streams import Stream

KEPT = 256


class Recent:
    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._exchanges: OrderedDict[str, Exchange] = OrderedDict()

    def add(self, exchange: Exchange) -> None:
        self._exchanges[exchange.id] = exchange
        while len(self._exchanges) > self._kept:
            self._exchanges.popitem(last=False)

    def find(self, name: str) -> Exchange | None:
        """By our id or the client's; of several with one client id, the latest."""
        if name in self._exchanges:
            return self._exchanges[name]
        return next((e for e in reversed(self._exchanges.values()) if e.client_id == name), None)


def describe(exchange: Exchange, now: float) -> dict[str, object]:
    """JSON-able. Times are seconds since the request arrived."""
    timing = exchange.timing
    return {
        "id": exchange.id,
        "client_id": exchange.client_id,
        "endpoint": exchange.endpoint,
        "outcome": exchange.outcome if exchange.ended else "running",
        "age_s": round(now - timing.arrived, 6),
        "first_token_s": since(timing.arrived, timing.first_token),
        "ended_s": since(timing.arrived, timing.ended),
        "prompt_tokens": exchange.prompt_tokens,
        "completion_tokens": exchange.completion_tokens,
        "streams": [_describe_stream(stream, timing.arrived) for stream in exchange.streams],
    }


def since(start: float, at: float | None) -> float | None:
    return None if at is None else round(at - start, 6)


def _describe_stream(stream: Stream, start: float) -> dict[str, object]:
    failure = stream.failure
    return {
        "attempt": str(stream.key),
        "state": stream.state.value,
        "writer": None if stream.writer is None else str(stream.writer),
        "prefill": stream.prefill,
        "received": stream.received,
        "failure": None if failure is None else f"{failure.code.name}: {failure.message}",
        "ledger": None if stream.ledger is None else asdict(stream.ledger),
        "story": [
            {
                "at_s": since(start, line.at),
                "event": line.event,
                "before": line.before.value,
                "after": line.after.value,
            }
            for line in stream.story
        ],
    }
