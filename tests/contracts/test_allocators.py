"""Every allocator of the table: the same tokens, nothing lost, no more in the pool than fits, and
of those that reserve ahead, runs that are runs and waste by how little they foresee."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.engine.allocators import ALLOCATORS, AllocatorName
from common.engine.engine import EngineLimits
from common.worker.settings import WorkerSettings
from tests.support.engine_loads import (
    Request,
    all_expected,
    bench_of,
    drop_all,
    enter,
    loads,
    served,
)
from tests.support.engines import Bench, greedy, key, prompt_of
from tests.support.sim.loop import warped
from tests.support.workers import Stage

CONTEXT = 128
every_allocator = pytest.mark.parametrize("name", ALLOCATORS)
without_sharing = pytest.mark.parametrize(
    "name", ["contiguous_max", "contiguous_pow2", "contiguous_oracle"]
)


def limits_of(name: AllocatorName, step_tokens: int = 48) -> EngineLimits:
    return EngineLimits(step_tokens, context_tokens=CONTEXT, allocator=name)


def tables(bench: Bench) -> list[list[int]]:
    engine = bench.engine
    everybody = [*engine._running, *engine._held.values()]
    return [sequence.table for sequence in everybody if sequence.table]


def test_the_setting_knows_the_names_of_the_table() -> None:
    assert set(get_args(AllocatorName)) == set(ALLOCATORS)
    assert WorkerSettings.model_fields["allocator"].annotation == AllocatorName
    assert WorkerSettings.model_fields["allocator"].default == EngineLimits().allocator == "paged"


@every_allocator
@settings(max_examples=40, deadline=None)
@given(requests=loads(), slots=st.integers(9, 40), step_tokens=st.sampled_from([16, 48, 512]))
def test_any_load_gets_the_tokens_it_gets_under_paged(
    name: AllocatorName, requests: list[Request], slots: int, step_tokens: int
) -> None:
    bench = bench_of(limits_of(name, step_tokens), slots)
    got = served(bench, requests)
    assert got == all_expected(requests)
    assert got == served(bench_of(limits_of("paged", step_tokens), slots), requests)
    assert bench.cache.used == 0


@every_allocator
@settings(max_examples=40, deadline=None)
@given(requests=loads(), steps=st.integers(0, 40), slots=st.integers(9, 30))
def test_cancelled_at_any_time_nothing_is_left(
    name: AllocatorName, requests: list[Request], steps: int, slots: int
) -> None:
    bench = bench_of(limits_of(name), slots)
    for index, request in enumerate(requests):
        enter(bench, f"r{index}", request)
    for _ in range(steps):
        bench.step()
    drop_all(bench, len(requests))
    bench.cache.check_invariants()
    assert (bench.engine.running, bench.cache.used) == (0, 0)


@without_sharing
@settings(max_examples=40, deadline=None)
@given(requests=loads(), slots=st.integers(9, 40))
def test_at_every_step_tables_are_runs_that_nobody_shares_and_that_fit(
    name: AllocatorName, requests: list[Request], slots: int
) -> None:
    bench = bench_of(limits_of(name), slots)
    for index, request in enumerate(requests):
        enter(bench, f"r{index}", request)
    while bench.engine.busy or bench.engine.running:
        bench.step()
        owned = [slot for table in tables(bench) for slot in table]
        assert all(table == list(range(table[0], table[-1] + 1)) for table in tables(bench))
        assert len(owned) == len(set(owned)) == bench.cache.used <= slots
        assert bench.cache.cached == 0
    assert bench.engine.waiting == 0


@pytest.mark.parametrize(
    ("name", "resident"),
    [("contiguous_max", 3), ("contiguous_pow2", 6), ("contiguous_oracle", 8), ("paged", 12)],
)
def test_so_many_are_resident_as_reservations_fit_into_the_pool(
    name: AllocatorName, resident: int
) -> None:
    """24 blocks, by 8 for 128 tokens, by 4 for 30 + 32, by 3 for 30 + 18, by 2 for 30."""
    bench = bench_of(limits_of(name, 512), 24)
    for seed in range(12):
        enter(bench, f"r{seed}", Request(30, 18, seed=seed))
    most = 0
    while bench.engine.busy:
        bench.step()
        most = max(most, len(tables(bench)))
    assert most == resident


def waste(name: AllocatorName) -> float:
    """As the PagedAttention paper has it: what is reserved and empty counts."""
    rng = np.random.default_rng(5)
    bench = bench_of(limits_of(name, 512), 80)
    for seed in range(24):
        prompt, tokens = int(rng.integers(8, 60)), int(rng.integers(4, 60))
        enter(bench, f"r{seed}", Request(prompt, tokens, seed=100 + seed))
    bench.run()
    held = bench.engine.integral
    return 1 - held.live / (held.live + held.tail + held.empty)


def test_the_less_an_allocator_foresees_the_more_it_wastes() -> None:
    by_name = {name: waste(name) for name in ALLOCATORS}
    assert sorted(by_name, key=by_name.__getitem__) == [
        "paged",
        "contiguous_oracle",
        "contiguous_pow2",
        "contiguous_max",
    ]
    assert by_name["paged"] < 0.2
    assert by_name["contiguous_max"] > 0.5


@every_allocator
def test_workers_serve_with_it_from_any_source_of_blocks(name: AllocatorName) -> None:
    """Computed here, delivered by a prefill worker that has the same allocator, loaded from the
    kvstore."""

    async def life() -> None:
        async with Stage() as stage:
            limits = EngineLimits(step_tokens=64, allocator=name, context_tokens=512)
            prefill, decode = [
                await stage.worker(worker, limits=limits) for worker in ("prefill-0", "decode-0")
            ]
            store = await stage.store()
            params = greedy(40, n=2, temperature=0.5)
            for index, helper in enumerate((None, prefill, None)):
                prompt = prompt_of(150, seed=index % 2)
                wanted = stage.assign(decode, stage.submit(f"r{index}", prompt, params), helper)
                ledger = (await stage.finish(wanted)).ledger
                stage.assert_output(wanted, prompt, params)
                await stage.until(lambda: store.stock.slots()["held"] >= 4)
                if name != "paged":
                    loaded = 128 if index == 2 else 0
                    assert (ledger.cached_device_tokens, ledger.cached_host_tokens) == (0, loaded)
            assert stage.gateway.tokens[key("r0"), 1] == stage.gateway.tokens[key("r2"), 1]
            await stage.assert_idle()

    warped(life)
