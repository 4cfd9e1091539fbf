"""Beside the runner a step costs little, and no more for long contexts than for short ones."""

from tests.support.step_overhead import DecodingEngine, median, publishing

STEPS = 200
LIMIT_MS = 0.5
"""Half of it or less on an idle machine; of CPU time, so that neighbours count only as far as they
take the caches."""
GROWTH = 1.5


def test_thirty_two_decodes_cost_half_a_millisecond_at_most() -> None:
    decoding = DecodingEngine(2048)
    spent = median([decoding.overhead() for _ in range(STEPS)])
    assert spent.cpu <= LIMIT_MS


def test_a_decode_step_costs_the_same_at_any_context() -> None:
    """Interleaved, so that both meet the same neighbours."""
    short, long = DecodingEngine(64), DecodingEngine(8192)
    samples = [(short.overhead(), long.overhead()) for _ in range(STEPS)]
    shorts, longs = zip(*samples, strict=True)
    assert median(longs).cpu <= GROWTH * median(shorts).cpu


def test_telling_a_gateway_of_thirty_two_tokens_costs_half_a_millisecond_at_most() -> None:
    assert publishing(STEPS).cpu <= LIMIT_MS
