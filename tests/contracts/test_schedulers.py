"""Every scheduler of the table: the same tokens, no block lost, no step too large, none idle."""

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.engine.allocators import ALLOCATORS, AllocatorName
from common.engine.engine import EngineLimits
from common.engine.job import Add, Unpin
from common.engine.mock import expected_output
from common.engine.schedulers import SCHEDULERS, SchedulerName
from common.engine.sequence import State
from common.worker.settings import WorkerSettings
from tests.support.engine_loads import (
    CountingRunner,
    Request,
    all_expected,
    bench_of,
    drop_all,
    enter,
    loads,
    served,
    states,
)
from tests.support.engines import ROOT, Bench, greedy, key, prompt_of
from tests.support.sim.loop import warped
from tests.support.workers import Stage

every_scheduler = pytest.mark.parametrize("name", SCHEDULERS)
SCARCE = 9
"""Blocks: one sequence of a load fits, and hardly a second."""
AMPLE = 400
"""Room for whole loads."""


def rows_of(bench: Bench) -> list[int]:
    assert isinstance(bench.runner, CountingRunner)
    return bench.runner.rows


def standing(bench: Bench) -> list[tuple[str, int, State]]:
    """Who is in the engine, and whether they have their blocks."""
    return [(seq.key.request, seq.choice, seq.state) for seq in bench.engine._running]


def test_the_setting_knows_the_names_of_the_table() -> None:
    assert set(get_args(SchedulerName)) == set(SCHEDULERS)
    assert WorkerSettings.model_fields["scheduler"].annotation == SchedulerName
    assert WorkerSettings.model_fields["scheduler"].default == EngineLimits().scheduler == "chunked"


@every_scheduler
@settings(max_examples=40, deadline=None)
@given(
    requests=loads(),
    step_tokens=st.sampled_from([2, 16, 48, 512]),
    slots=st.integers(SCARCE, 40),
    allocator=st.sampled_from(sorted(ALLOCATORS)),
)
def test_any_load_gets_the_tokens_it_gets_under_chunked(
    name: SchedulerName,
    requests: list[Request],
    step_tokens: int,
    slots: int,
    allocator: AllocatorName,
) -> None:
    limits = EngineLimits(step_tokens, scheduler=name, allocator=allocator)
    bench = bench_of(limits, slots)
    got = served(bench, requests)
    assert got == all_expected(requests)
    assert got == served(bench_of(EngineLimits(step_tokens), slots), requests)
    assert bench.cache.used == 0
    assert max(rows_of(bench)) <= step_tokens


@every_scheduler
@settings(max_examples=40, deadline=None)
@given(
    requests=loads(),
    step_tokens=st.sampled_from([2, 20, 512]),
    slots=st.one_of(st.integers(SCARCE, 30), st.just(AMPLE)),
)
def test_a_step_computes_something_while_anybody_runs(
    name: SchedulerName, requests: list[Request], step_tokens: int, slots: int
) -> None:
    """Where blocks are scarce it may be taken up by throwing somebody out or bringing them back."""
    bench = bench_of(EngineLimits(step_tokens, scheduler=name), slots)
    for index, request in enumerate(requests):
        enter(bench, f"r{index}", request)
    while bench.engine.busy:
        steps, before = bench.engine.steps, standing(bench)
        bench.step()
        idle = bench.engine.steps == steps
        assert not (idle and before) or (slots < AMPLE and standing(bench) != before)
    assert bench.engine.running == 0
    assert bench.cache.used == 0


@every_scheduler
def test_sequences_that_are_thrown_out_and_come_back_get_the_same_tokens(
    name: SchedulerName,
) -> None:
    bench = bench_of(EngineLimits(scheduler=name), 8)
    requests = [Request(20, 60, seed=seed, steps_before=0) for seed in range(4)]
    assert served(bench, requests) == all_expected(requests)
    ledgers = [bench.done(f"r{index}").ledger for index in range(4)]
    assert sum(ledger.preemptions for ledger in ledgers) > 0
    assert all(ledger.prefill_computed_tokens == 20 for ledger in ledgers)


@every_scheduler
@settings(max_examples=40, deadline=None)
@given(requests=loads(), steps=st.integers(0, 40), slots=st.integers(SCARCE, 20))
def test_cancelled_in_any_state_nothing_is_left(
    name: SchedulerName, requests: list[Request], steps: int, slots: int
) -> None:
    bench = bench_of(EngineLimits(step_tokens=32, scheduler=name), slots)
    for index, request in enumerate(requests):
        enter(bench, f"r{index}", request)
    for _ in range(steps):
        bench.step()
    drop_all(bench, len(requests))
    bench.cache.check_invariants()
    assert (bench.engine.running, bench.engine.waiting, bench.cache.used) == (0, 0, 0)
    enter(bench, "after", requests[0])
    bench.run()
    assert bench.output("after") == requests[0].expected(0)


@every_scheduler
def test_a_load_like_that_has_somebody_in_every_state_but_held(name: SchedulerName) -> None:
    bench = bench_of(EngineLimits(step_tokens=32, scheduler=name), 8)
    for index in range(5):
        enter(bench, f"r{index}", Request(40, 40, seed=index))
    seen: set[State] = set()
    while bench.engine.busy:
        seen |= states(bench)
        bench.step()
    assert {State.WAITING, State.RUNNING, State.PREEMPTED} <= seen


@every_scheduler
def test_a_held_sequence_can_be_cancelled(name: SchedulerName) -> None:
    bench = bench_of(EngineLimits(scheduler=name), 8)
    bench.engine.handle(Add(key("r0"), prompt_of(40), [], ROOT, greedy(5)))
    bench.engine.step()
    assert states(bench) == {State.HELD}
    assert bench.cache.used == 3
    drop_all(bench, 1)
    assert bench.cache.used == 0


@every_scheduler
def test_a_prompt_that_is_handed_off_leaves_nothing(name: SchedulerName) -> None:
    bench = bench_of(EngineLimits(step_tokens=64, scheduler=name), 40)
    for index in range(3):
        prompt = prompt_of(70 + index, seed=index)
        bench.add(f"r{index}", prompt, greedy(9, n=2), hand_off=True, export_from=0)
    bench.run()
    for index in range(3):
        expected = expected_output(prompt_of(70 + index, seed=index), greedy(1))[0]
        assert [drawn.token for drawn in bench.first_drawn(f"r{index}").first] == [expected] * 2
        for event in bench.computed(f"r{index}"):
            bench.engine.handle(Unpin(event.slots))
    assert bench.cache.used == 0


@every_scheduler
def test_workers_serve_with_it_alone_and_with_prefill_apart(name: SchedulerName) -> None:
    async def life() -> None:
        async with Stage() as stage:
            limits = EngineLimits(step_tokens=64, scheduler=name)
            prefill, decode = [
                await stage.worker(worker, limits=limits) for worker in ("prefill-0", "decode-0")
            ]
            for index in range(4):
                submit = stage.submit(
                    f"r{index}", prompt_of(150, seed=index), greedy(4 + 9 * index)
                )
                stage.assign(decode, submit, prefill if index % 2 else None)
            for index in range(4):
                await stage.finish(key(f"r{index}"))
                prompt = prompt_of(150, seed=index)
                stage.assert_output(key(f"r{index}"), prompt, greedy(4 + 9 * index))
            await stage.assert_idle()

    warped(life)
