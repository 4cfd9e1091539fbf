"""What the harness adds is told apart from what the server did."""

import os

import pytest

from loadtest.errors import LoadTestError
from loadtest.record import Outcome, Record
from loadtest.selfcheck import self_check, summed_up

ORIGIN = 1000.0


def seen(written: list[float], delay_s: float, *, sent: float = 0.0) -> Record:
    """Written on the server's clock since ORIGIN, and read so much later."""
    record = Record("main", 0, 0, scheduled_s=0.0, sent_s=sent, outcome=Outcome.FINISHED)
    record.chunks_s = [at + delay_s for at in written]
    record.ended_s = record.chunks_s[-1]
    record.server = {"written_s": [ORIGIN + at for at in written]}
    return record


async def test_a_small_check_of_this_machine() -> None:
    cores = os.sched_getaffinity(0)
    found = await self_check(streams=5, rate=200.0, tokens=10)
    assert os.sched_getaffinity(0) == cores
    assert found.streams == 5
    assert found.chunks_s > 0
    assert 0 < found.cpu_share < 1
    # On one machine nothing is read before it is written.
    assert found.delay_p50_ms >= 0
    assert found.itl_made_p99_ms >= 5 * 0.9
    assert len(found.sentences()) == 4


def test_delays_and_gaps_are_those_of_the_client_and_of_the_server() -> None:
    even = seen([0.0, 0.1, 0.2], 0.005)
    late = seen([0.0, 0.1, 0.4], 0.005, sent=0.02)
    late.chunks_s[2] += 0.1
    late.ended_s += 0.1
    found = summed_up([even, late], streams=2, chunks=6, cpu_s=0.0505, origin=ORIGIN)
    assert found.chunks_s == pytest.approx(6 / 0.505)
    assert found.cpu_share == pytest.approx(0.1)
    assert found.cpu_us_a_chunk == pytest.approx(50500 / 6)
    assert found.delay_p50_ms == pytest.approx(5.0)
    assert found.delay_p99_ms == pytest.approx(100.0)
    assert found.itl_made_p99_ms == pytest.approx(297, abs=5)
    assert found.itl_seen_p99_ms == pytest.approx(393, abs=8)
    assert found.lag_p99_ms == pytest.approx(19.8)


def test_a_stream_that_did_not_finish_makes_the_check_void() -> None:
    broken = seen([0.0, 0.1], 0.0)
    broken.outcome, broken.error = Outcome.CUT, "gone"
    with pytest.raises(LoadTestError, match="1 streams did not finish: gone"):
        summed_up([broken], streams=1, chunks=2, cpu_s=0.1, origin=ORIGIN)


@pytest.mark.parametrize(
    ("streams", "rate", "tokens"), [(0, 1.0, 2), (1, 0.0, 2), (1, float("inf"), 2), (1, 1.0, 1)]
)
async def test_a_check_of_nothing_is_refused(streams: int, rate: float, tokens: int) -> None:
    with pytest.raises(LoadTestError, match="a check needs"):
        await self_check(streams, rate, tokens)
