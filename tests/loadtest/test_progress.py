"""Counters of a run that goes on, and what is told from them."""

import math
from collections import deque

import pytest

from loadtest.progress import KEPT, WINDOW_S, Progress, percentiles
from loadtest.record import Outcome, Record


def answered(load: str = "main", outcome: Outcome = Outcome.FINISHED) -> Record:
    record = Record(load, 0, 0, scheduled_s=1.0, sent_s=1.25, outcome=outcome, error="no")
    record.chunks_s = [1.5, 2.0, 2.5]
    return record


def test_requests_are_counted_by_load_and_end() -> None:
    progress = Progress("run", {"main": 10, "batch": 5})
    for load in ("main", "main", "main", "main", "batch"):
        progress.sent(load)
    progress.ended(answered())
    progress.ended(answered(outcome=Outcome.CUT))
    progress.ended(answered(outcome=Outcome.LEFT))
    main = progress.loads["main"]
    assert (main.sent, main.finished, main.missed, main.left) == (4, 1, 1, 1)
    assert (main.ended, main.running) == (3, 1)
    assert (progress.total_sent, progress.total_ended) == (5, 3)
    assert progress.last_error == "no"


def test_latencies_are_taken_from_what_has_ended() -> None:
    progress = Progress("run", {"main": 1})
    progress.ended(answered())
    main = progress.loads["main"]
    assert list(main.ttft_ms) == [500]
    assert list(main.itl_ms) == [500]
    assert list(main.lag_ms) == [250]


def test_one_that_brought_nothing_has_a_lag_only() -> None:
    progress = Progress("run", {"main": 1})
    record = answered(outcome=Outcome.REJECTED)
    record.chunks_s = []
    progress.ended(record)
    main = progress.loads["main"]
    assert not main.ttft_ms
    assert not main.itl_ms
    assert main.lag_ms


def test_only_the_latest_latencies_are_kept() -> None:
    progress = Progress("run", {"main": None})
    for _ in range(KEPT + 5):
        progress.ended(answered())
    assert len(progress.loads["main"].ttft_ms) == KEPT


def test_a_load_that_nobody_announced_is_counted_too() -> None:
    progress = Progress("run", {"main": 1})
    progress.sent("warmup-main")
    assert progress.loads["warmup-main"].sent == 1


def test_speed_is_over_the_window_and_forgets_what_is_older() -> None:
    progress = Progress("run", {"main": None})
    assert progress.speed(0.0).chunks == 0
    speeds = []
    for second in range(1, 21):
        progress.chunks += 100 if second <= 10 else 10
        speeds.append(progress.speed(float(second)).chunks)
    assert speeds[9] == 100
    assert speeds[-1] == 10


def test_speed_before_a_whole_window_is_since_the_first_look() -> None:
    progress = Progress("run", {"main": None})
    progress.speed(1.0)
    for _ in range(30):
        progress.chunk()
    progress.sent("main")
    assert WINDOW_S > 2
    assert progress.speed(3.0).chunks == 15
    assert progress.speed(3.0).sent == 0.5


def test_time_left_is_the_schedules_where_there_is_one() -> None:
    assert Progress("run", {"main": None}, last_s=60).left_s(45.0) == 15
    assert Progress("run", {"main": None}, last_s=60).left_s(70.0) == 0


def test_time_left_is_told_from_the_share_that_is_done_else() -> None:
    progress = Progress("run", {"main": 4})
    assert progress.left_s(5.0) is None
    progress.ended(answered())
    assert progress.share_done() == 0.25
    assert progress.left_s(5.0) == 15


def test_with_one_load_unknown_nobody_knows() -> None:
    progress = Progress("run", {"main": 4, "users": None})
    progress.ended(answered())
    assert progress.share_done() is None
    assert progress.left_s(5.0) is None


def test_percentiles_of_nothing_are_not_numbers() -> None:
    assert all(map(math.isnan, percentiles(deque())))
    assert percentiles(deque([1.0, 3.0])) == pytest.approx((2.0, 2.8))
