"""Every definition on requests made by hand. Moments are multiples of 1/64 s, which floats hold
exactly, so that what is expected is exact, too."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.metrics import (
    Targets,
    acceptance_length,
    chunk_gaps_ms,
    distribution,
    e2e_ms,
    lag_ms,
    measure,
    most_running,
    steady_tokens_s,
    token_gaps_ms,
    tokens_of_chunks,
    tpot_ms,
    ttft_ms,
)
from loadtest.record import Outcome, Record

NO_TARGETS = Targets()


def asked(
    chunks: tuple[float, ...] = (),
    tokens: int | None = None,
    outcome: Outcome = Outcome.FINISHED,
    *,
    scheduled: float = 0.0,
    sent: float | None = None,
    ended: float | None = None,
    per_chunk: tuple[int, ...] = (),
) -> Record:
    return Record(
        load="main",
        session=0,
        turn=0,
        scheduled_s=scheduled,
        sent_s=scheduled if sent is None else sent,
        ended_s=(chunks[-1] if chunks else scheduled) if ended is None else ended,
        outcome=outcome,
        chunks_s=list(chunks),
        chunk_tokens=list(per_chunk),
        output_tokens=tokens,
    )


def test_times_run_from_the_scheduled_moment_so_a_late_client_counts() -> None:
    record = asked((1.5, 1.75, 2.0), 3, scheduled=1.0, sent=1.25, ended=2.5)
    assert lag_ms(record) == 250
    assert ttft_ms(record) == 500
    assert e2e_ms(record) == 1000, "the last content, not the end of the stream"
    assert tpot_ms(record) == 250


def test_several_tokens_a_chunk_change_tpot_but_not_the_chunks_gaps() -> None:
    record = asked((1.0, 1.5, 2.5), 8, per_chunk=(2, 2, 4))
    assert chunk_gaps_ms(record) == [500, 1000]
    assert token_gaps_ms(record) == [250, 250, 250, 250, 250, 250]
    assert tpot_ms(record) == pytest.approx(1500 / 7)


def test_a_first_token_without_text_is_counted_but_has_no_chunk() -> None:
    """Four tokens, three chunks: nobody knows which chunk brought what."""
    record = asked((1.0, 1.25, 1.5), 4)
    assert ttft_ms(record) == 1000
    assert tpot_ms(record) == pytest.approx(500 / 3)
    assert tokens_of_chunks(record) is None
    assert token_gaps_ms(record) is None
    assert chunk_gaps_ms(record) == [250, 250]


def test_counts_of_some_chunks_only_say_nothing() -> None:
    record = asked((1.0, 1.25, 1.5), 5, Outcome.LEFT, per_chunk=(2, 3))
    assert token_gaps_ms(record) is None


def test_a_chunk_that_brings_no_new_token_hands_its_wait_to_the_next() -> None:
    record = asked((1.0, 1.25, 1.5), 3, per_chunk=(1, 0, 2))
    assert token_gaps_ms(record) == [250, 250]


def test_one_token_has_a_ttft_and_no_tpot() -> None:
    record = asked((1.0,), 1)
    assert ttft_ms(record) == 1000
    assert e2e_ms(record) == 1000
    assert tpot_ms(record) is None
    assert chunk_gaps_ms(record) == []
    assert token_gaps_ms(record) == []


def test_tokens_come_from_the_server_and_never_from_chunks() -> None:
    record = asked((1.0, 2.0), None)
    assert tpot_ms(record) is None
    assert tokens_of_chunks(record) is None


def test_a_stream_cut_in_the_middle_has_gaps_and_ttft_but_no_end() -> None:
    record = asked((1.0, 1.5), 2, Outcome.CUT)
    assert ttft_ms(record) == 1000
    assert chunk_gaps_ms(record) == [500]
    assert e2e_ms(record) is None
    assert tpot_ms(record) is None


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.FAILED])
def test_without_content_there_is_no_measure_but_lag(outcome: Outcome) -> None:
    record = asked((), None, outcome, scheduled=1.0, sent=1.5)
    assert ttft_ms(record) is e2e_ms(record) is tpot_ms(record) is None
    assert chunk_gaps_ms(record) == []
    assert lag_ms(record) == 500


@given(
    start=st.floats(0, 10),
    chunks=st.lists(st.tuples(st.floats(0, 5), st.integers(0, 6)), min_size=1, max_size=30),
)
def test_the_shares_of_tokens_add_up_to_the_time_between_first_and_last(
    start: float, chunks: list[tuple[float, int]]
) -> None:
    times = tuple(np.cumsum([start, *(gap for gap, _ in chunks)]).tolist())
    counts = (1, *(count for _, count in chunks[:-1]), 1)
    shares = token_gaps_ms(asked(times, sum(counts), per_chunk=counts))
    assert shares is not None
    assert len(shares) == sum(counts) - 1
    assert math.fsum(shares) == pytest.approx((times[-1] - times[0]) * 1e3)


@pytest.mark.parametrize(
    ("targets", "meets"),
    [
        (Targets(ttft_ms=1000), True),
        (Targets(ttft_ms=999), False),
        (Targets(tpot_ms=500), True),
        (Targets(tpot_ms=499), False),
        (Targets(e2e_ms=2000), True),
        (Targets(e2e_ms=1999), False),
        (Targets(ttft_ms=1000, tpot_ms=499), False),
        (NO_TARGETS, True),
    ],
)
def test_a_target_is_met_at_its_very_value_and_all_must_be(
    targets: Targets, *, meets: bool
) -> None:
    assert targets.met(asked((1.0, 1.5, 2.0), 3)) is meets


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.FINISHED])
def test_what_did_not_finish_meets_nothing(outcome: Outcome) -> None:
    assert not NO_TARGETS.met(asked((1.0, 1.5), 2, outcome))


def test_an_answer_without_content_meets_nothing() -> None:
    assert not Targets(tpot_ms=1).met(asked((), 0))


def test_one_token_cannot_miss_a_tpot_target() -> None:
    assert Targets(tpot_ms=1).met(asked((1.0,), 1))


def test_a_target_is_not_negative() -> None:
    with pytest.raises(ValueError, match="not negative"):
        Targets(tpot_ms=-1)


def test_percentiles_are_by_linear_interpolation() -> None:
    found = distribution([40, 10, 30, 20])
    assert found is not None
    assert (found.count, found.requests, found.mean, found.max) == (4, 4, 25, 40)
    assert found.p50 == 25
    assert found.p90 == pytest.approx(37)
    assert found.p99 == pytest.approx(39.7)


def test_nothing_has_no_distribution() -> None:
    assert distribution([]) is None


@pytest.mark.parametrize(
    ("requests", "p90", "p99"),
    [(199, False, False), (200, True, False), (999, True, False), (1000, True, True)],
)
def test_firmness_is_a_matter_of_requests(requests: int, *, p90: bool, p99: bool) -> None:
    found = distribution([1.0] * 5000, requests)
    assert found is not None
    assert (found.p90_is_firm, found.p99_is_firm) == (p90, p99)


def test_pooled_gaps_rest_on_the_requests_that_have_any() -> None:
    records = [asked((1.0, 1.25, 1.5, 2.5), 4), asked((1.0, 2.0), 2), asked((1.0,), 1)]
    found = measure(records, NO_TARGETS).distributions["itl_chunk_ms"]
    assert (found.count, found.requests) == (4, 2)
    assert (found.p50, found.max) == (625, 1000)


def test_gaps_of_tokens_leave_out_requests_of_which_nobody_knows() -> None:
    records = [asked((1.0, 1.5), 4, per_chunk=(2, 2)), asked((1.0, 2.0), 7)]
    found = measure(records, NO_TARGETS).distributions
    assert (found["itl_token_ms"].count, found["itl_token_ms"].requests) == (2, 1)
    assert found["itl_token_ms"].mean == 250
    assert found["itl_chunk_ms"].count == 2


def one_of_each() -> list[Record]:
    """Two finish (one too late), and one of every other end. 4 s from first to last."""
    finished = asked((1.0, 1.5, 2.0), 3)
    slow = asked((3.0, 4.0), 2, scheduled=1.0)
    finished.prompt_tokens, finished.cached_tokens = 100, 40
    slow.prompt_tokens = 60
    return [
        finished,
        slow,
        asked((), None, Outcome.REJECTED, scheduled=0.5),
        asked((), None, Outcome.FAILED, scheduled=0.5),
        asked((1.0,), 1, Outcome.CUT, scheduled=0.5),
        asked((1.0,), 1, Outcome.LEFT, scheduled=0.5),
    ]


def test_misses_are_judged_and_what_left_is_not() -> None:
    found = measure(one_of_each(), Targets(ttft_ms=1000))
    assert found.attainment == 1 / 5
    assert found.goodput == 1 / 4
    assert found.misses == 3
    assert found.outcomes == {"finished": 2, "rejected": 1, "failed": 1, "cut": 1, "left": 1}


def test_without_targets_there_is_neither_attainment_nor_goodput() -> None:
    found = measure(one_of_each(), NO_TARGETS)
    assert found.attainment is None
    assert found.goodput is None


def test_nobody_is_judged_where_all_left() -> None:
    left = asked((1.0,), 1, Outcome.LEFT)
    assert measure([left], Targets(ttft_ms=1)).attainment is None


def test_rates_are_over_first_scheduled_to_last_end() -> None:
    found = measure(one_of_each(), NO_TARGETS)
    assert found.duration_s == 4
    assert found.issued == 6
    assert found.request_rate == 2 / 4
    assert (found.output_tokens, found.prompt_tokens) == (7, 160)
    assert found.output_tokens_s == 7 / 4
    assert found.total_tokens_s == 167 / 4


def test_cached_tokens_are_unknown_only_where_no_answer_tells() -> None:
    found = measure(one_of_each(), NO_TARGETS)
    assert found.cached_tokens == 40
    assert found.cached_share == 40 / 160
    silent = measure([asked((1.0,), 1)], NO_TARGETS)
    assert silent.cached_tokens is None
    assert silent.cached_share is None


def test_nothing_cannot_be_measured() -> None:
    with pytest.raises(ValueError, match="nothing was sent"):
        measure([], NO_TARGETS)


def test_steady_tokens_are_those_between_the_first_end_and_the_last_sending() -> None:
    first = asked((0.5, 1.0), 2)
    middle = asked((0.5, 1.0, 1.5, 2.5), 8, per_chunk=(1, 3, 2, 2))
    last = asked((4.0,), 1, scheduled=3.0)
    # From 1.0 (included) to 3.0: one token of the first, 3 + 2 + 2 of the middle one.
    assert steady_tokens_s([first, middle, last]) == (1 + 7) / 2


def test_steady_tokens_are_spread_over_chunks_where_nobody_counts() -> None:
    first = asked((1.0,), 1)
    uncounted = asked((0.5, 1.5, 2.5, 3.5), 10)
    last = asked((4.0,), 1, scheduled=3.0)
    assert steady_tokens_s([first, uncounted, last]) == (1 + 10 / 2) / 2


def test_a_refusal_is_not_the_end_of_filling_up() -> None:
    refused = asked((), None, Outcome.REJECTED)
    assert steady_tokens_s([refused, asked((1.0, 2.0), 2), asked((3.0,), 1, scheduled=2.5)]) == 2
    assert steady_tokens_s([refused, asked((), None, Outcome.FAILED, scheduled=1.0)]) is None


def test_one_after_another_there_is_no_steady_time() -> None:
    assert steady_tokens_s([asked((1.0,), 1)]) is None


def test_an_end_and_a_sending_at_the_same_moment_do_not_overlap() -> None:
    assert most_running([asked((1.0,), 1), asked((2.0,), 1, scheduled=1.0)]) == 1
    assert most_running([asked((1.0,), 1), asked((2.0,), 1, scheduled=0.5)]) == 2


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), min_size=1, max_size=25))
def test_most_running_is_what_counting_at_every_moment_gives(spans: list[tuple[int, int]]) -> None:
    records = [asked((), sent=begin, ended=begin + length) for begin, length in spans]
    counted = [sum(b <= at < b + length for b, length in spans) for at in range(30)]
    assert most_running(records) == max(counted)


def test_acceptance_length_is_the_mean_over_the_requests_that_tell() -> None:
    records = [asked((1.0,), 1) for _ in range(4)]
    records[0].server = {"speculative_decoding": {"mean_acceptance_length": 2}}
    records[1].server = {"speculative_decoding": {"mean_acceptance_length": 3.5}}
    records[2].server = {"speculative_decoding": {"mean_acceptance_length": "many"}}
    assert acceptance_length(records) == 2.75
    assert acceptance_length(records[2:]) is None


def test_without_usage_there_are_no_figures_of_tokens() -> None:
    found = measure([asked((1.0, 2.0)), asked((1.0, 3.0), scheduled=2.5)], NO_TARGETS)
    assert (found.output_tokens, found.prompt_tokens) == (None, None)
    assert (found.output_tokens_s, found.total_tokens_s, found.steady_tokens_s) == (None,) * 3
    assert found.cached_share is None
    assert found.request_rate > 0


def test_one_that_tells_speaks_for_those_that_do_not() -> None:
    found = measure([asked((1.0, 2.0), 2), asked((1.0, 2.0))], NO_TARGETS)
    assert (found.output_tokens, found.output_tokens_s) == (2, 1.0)
    assert (found.prompt_tokens, found.total_tokens_s) == (None, None)


def test_where_no_content_came_no_token_did() -> None:
    found = measure([asked((), None, Outcome.REJECTED, ended=2.0)], NO_TARGETS)
    assert (found.output_tokens, found.output_tokens_s, found.total_tokens_s) == (0, 0.0, 0.0)
