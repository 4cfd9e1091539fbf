"""Recent requests: found by either id, bounded, told without text."""

import json

from common.domain.ids import AttemptKey, RequestId
from common.domain.ledger import Ledger
from services.gateway.exchange import Exchange, Timing
from services.gateway.recent import Recent, describe
from services.gateway.streams import Stream, StreamState, WriterLost, advance


def exchange(name: str, client: str = "client") -> Exchange:
    return Exchange(name, client, "chat", Timing(1.0))


def test_found_by_our_id_or_the_latest_of_the_clients() -> None:
    recent = Recent()
    first, second = exchange("a"), exchange("b")
    recent.add(first)
    recent.add(second)
    assert recent.find("a") is first
    assert recent.find("client") is second
    assert recent.find("nobody") is None


def test_only_the_last_are_kept() -> None:
    recent = Recent(kept=2)
    for name in "abc":
        recent.add(exchange(name))
    assert recent.find("a") is None
    assert recent.find("b") is not None


def test_the_description_tells_story_and_ledger() -> None:
    made = exchange("a")
    stream = Stream(AttemptKey(RequestId("a"), 1), 1, 4, state=StreamState.PLACED)
    stream.ledger = Ledger(queue_ms=1.5)
    advance(stream, WriterLost(), 1.25)
    made.open(stream, [])
    told = describe(made, 2.0)
    assert told["outcome"] == "failed"

    one = json.loads(json.dumps(told))["streams"][0]
    assert one["failure"] == "WORKER_LOST: the worker that served this request is gone"
    assert one["ledger"]["queue_ms"] == 1.5
    assert one["story"] == [
        {"at_s": 0.25, "event": "WriterLost", "before": "placed", "after": "failed"}
    ]
