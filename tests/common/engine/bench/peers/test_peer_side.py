import io
import json
from dataclasses import asdict

from common.engine.bench.peers.cases import Case
from common.engine.bench.peers.peer_side import serve


def conversation(*requests: dict[str, object]) -> list[dict[str, object]]:
    replies = io.StringIO()
    serve((json.dumps(request) for request in requests), replies)
    return [json.loads(line) for line in replies.getvalue().splitlines()]


def order(**options: str) -> dict[str, object]:
    adapter = "tests.support.fake_peer:open_engine"
    return {"adapter": adapter, "model": "m", "threads": 1, "options": options}


def ask(case: Case, seed: int = 1) -> dict[str, object]:
    return {"case": asdict(case), "seed": seed, "vocab": 100}


def test_it_opens_the_engine_and_answers_each_case_in_order() -> None:
    ready, streams, warm = conversation(
        order(), ask(Case("streams", 2, output=3)), ask(Case("warm", 8))
    )
    assert ready["about"] == "fake 1.0"
    for reply in (streams, warm):
        assert isinstance(reply["value"], float)
        assert reply["value"] > 0
        assert set(reply) == {"value", "seconds", "cpu_seconds"}


def test_what_a_peer_cannot_do_is_null() -> None:
    _, warm = conversation(order(caches="no"), ask(Case("warm", 8)))
    assert warm["value"] is None
