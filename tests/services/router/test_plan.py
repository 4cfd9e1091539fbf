"""The rules that hold under every policy."""

from collections.abc import Sequence
from typing import Any

import pytest

from common.domain.errors import ErrorCode
from services.router.placement import (
    Candidate,
    Cluster,
    Need,
    Outcome,
    Placement,
    Refusal,
    Stage,
    Wait,
    WorkerLoad,
    need_of,
)
from services.router.plan import PlanRules, plan, refuse
from tests.support.router_world import BLOCK_TOKENS, process, prompt_of, submit

IDLE = WorkerLoad(blocks_total=100)
RULES = PlanRules(max_sequences=4, local_prefill_tokens=256)
D0, D1, P0, P1 = (process(name) for name in ("decode-0", "decode-1", "prefill-0", "prefill-1"))


class First:
    """Takes the first, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Stage, list[str]]] = []

    def choose(self, stage: Stage, need: Need, candidates: Sequence[Candidate]) -> Candidate:
        self.asked.append((stage, [c.process.name for c in candidates]))
        return candidates[0]


def worker(name: str, load: WorkerLoad = IDLE, units: int = 0, **fields: Any) -> Candidate:
    return Candidate(process(name), load, device_units=units, **fields)


def need(blocks: int = 20, tail: int = 5, **changes: object) -> Need:
    return need_of(submit("r", prompt_of(blocks, tail=tail), **changes), BLOCK_TOKENS)


def planned(asked: Need, *workers: Candidate) -> Outcome:
    decode = tuple(w for w in workers if w.process.name.startswith("decode"))
    prefill = tuple(w for w in workers if w.process.name.startswith("prefill"))
    return plan(asked, Cluster(decode, prefill), First(), RULES)


def placed(asked: Need, *workers: Candidate) -> Placement:
    outcome = planned(asked, *workers)
    assert isinstance(outcome, Placement)
    return outcome


def refused(asked: Need, *workers: Candidate) -> Refusal:
    outcome = planned(asked, *workers)
    assert isinstance(outcome, Refusal)
    return outcome


def test_decode_writes_and_prefill_computes() -> None:
    placement = placed(need(), worker("decode-0"), worker("prefill-0"))
    assert (placement.writer, placement.prefill) == (D0, P0)
    assert (placement.uncached_tokens, placement.prefill_blocks) == (645, 21)


def test_without_prefill_workers_decode_does_everything() -> None:
    placement = placed(need(), worker("decode-0", units=4))
    assert (placement.writer, placement.prefill) == (D0, None)
    assert (placement.uncached_tokens, placement.new_blocks, placement.context_blocks) == (
        581,
        19,
        21,
    )


def test_a_single_token_is_written_by_the_prefill_worker_alone() -> None:
    placement = placed(need(max_tokens=1), worker("decode-0"), worker("prefill-0"))
    assert (placement.writer, placement.prefill) == (P0, None)
    placement = placed(need(max_tokens=1), worker("decode-0"))
    assert (placement.writer, placement.prefill) == (D0, None)
    placement = placed(need(max_tokens=1, min_tokens=1), worker("decode-0"), worker("prefill-0"))
    assert (placement.writer, placement.prefill) == (D0, P0)


@pytest.mark.parametrize(
    ("decode_units", "prefill_units", "local"),
    [(25, 0, True), (24, 0, False), (40, 39, True), (40, 40, False), (30, 40, False)],
    ids=["just little enough left", "too much left", "one unit more", "no more", "less"],
)
def test_decode_computes_a_short_rest_that_it_alone_has_most_of(
    decode_units: int, prefill_units: int, local: bool
) -> None:
    # 645 prompt tokens: 25 units leave 245, 24 leave 261.
    placement = placed(
        need(),
        worker("decode-0", units=decode_units),
        worker("prefill-0", units=prefill_units),
        worker("prefill-1"),
    )
    assert (placement.prefill is None) is local


def test_the_last_token_is_always_computed() -> None:
    placement = placed(need(tail=0), worker("decode-0", units=40))
    assert placement.uncached_tokens == placement.writer_new_tokens == 1
    assert placement.new_blocks == 1


def test_a_host_hit_spares_computing_but_not_allocating() -> None:
    placement = placed(need(), worker("decode-0", host_units=40))
    assert (placement.uncached_tokens, placement.new_blocks) == (5, 21)


def test_what_no_pool_can_hold_is_refused_with_the_numbers() -> None:
    small = WorkerLoad(blocks_total=20)
    refusal = refused(need(), worker("decode-0", small), worker("prefill-0"))
    assert refusal.code is ErrorCode.CAPACITY
    assert not refusal.retryable
    assert "21 KV blocks" in refusal.message
    assert "20" in refusal.message


def test_a_busy_pool_is_no_reason_to_refuse() -> None:
    full = WorkerLoad(blocks_total=21, blocks_used=21)
    assert planned(need(), worker("decode-0", full)) == Wait()


def test_only_workers_whose_pool_is_large_enough_are_asked() -> None:
    small = WorkerLoad(blocks_total=20)
    placement = placed(need(), worker("decode-0", small), worker("decode-1"))
    assert placement.writer == D1
    placement = placed(need(), worker("decode-0"), worker("prefill-0", small), worker("prefill-1"))
    assert placement.prefill == P1
    assert placed(need(), worker("decode-0"), worker("prefill-0", small)).prefill is None


def test_choices_count_towards_the_pool() -> None:
    pool = WorkerLoad(blocks_total=22)
    assert placed(need(n=2), worker("decode-0", pool)).choices == 2
    assert refused(need(n=3), worker("decode-0", pool)).code is ErrorCode.CAPACITY


def test_a_large_prefill_pool_serves_a_single_token_that_no_decode_pool_can() -> None:
    small = WorkerLoad(blocks_total=20)
    placement = placed(need(max_tokens=1), worker("decode-0", small), worker("prefill-0"))
    assert placement.writer == P0


def test_no_decode_worker_is_said_at_once_and_may_be_tried_again() -> None:
    refusal = refused(need(), worker("prefill-0"))
    assert (refusal.code, refusal.retryable, refusal.retry_after_ms) == (
        ErrorCode.NO_WORKER,
        True,
        1_000,
    )


def test_an_empty_prompt_is_refused() -> None:
    assert refused(need(blocks=0, tail=0), worker("decode-0")).code is ErrorCode.INVALID_REQUEST


def test_unavailable_workers_are_waited_for() -> None:
    assert planned(need(), worker("decode-0", available=False)) == Wait()
    assert planned(need(), worker("decode-0"), worker("prefill-0", available=False)) == Wait()
    single = need(max_tokens=1)
    assert planned(single, worker("decode-0"), worker("prefill-0", available=False)) == Wait()
    assert refuse(need(), Cluster((worker("decode-0", available=False),), ())) is None


def test_the_number_of_sequences_is_bounded() -> None:
    three = WorkerLoad(sequences=3, blocks_total=100)
    assert isinstance(planned(need(), worker("decode-0", three)), Placement)
    assert planned(need(n=2), worker("decode-0", three)) == Wait()
    assert planned(need(), worker("decode-0", WorkerLoad(sequences=4))) == Wait()


def test_more_choices_than_the_bound_get_a_worker_to_themselves() -> None:
    assert placed(need(n=9), worker("decode-0")).choices == 9


def test_cached_blocks_make_room() -> None:
    load = WorkerLoad(blocks_total=100, blocks_used=95)
    assert planned(need(), worker("decode-0", load)) == Wait()
    assert placed(need(), worker("decode-0", load, units=32)).new_blocks == 5


def test_a_worker_that_has_not_told_its_size_is_tried() -> None:
    assert placed(need(), worker("decode-0", WorkerLoad())).writer == D0


def test_the_policy_is_asked_per_stage_about_able_workers_only() -> None:
    policy = First()
    cluster = Cluster(
        (worker("decode-0", available=False), worker("decode-1")),
        (worker("prefill-0"), worker("prefill-1", WorkerLoad(sequences=4))),
    )
    plan(need(), cluster, policy, RULES)
    assert policy.asked == [(Stage.DECODE, ["decode-1"]), (Stage.PREFILL, ["prefill-0"])]
