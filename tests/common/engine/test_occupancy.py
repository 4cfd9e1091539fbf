"""KV waste against a model that looks at every token slot of the pool."""

import numpy as np
import pytest

from common.engine.engine import EngineLimits
from common.engine.job import Add
from common.engine.occupancy import Occupancy, OccupancyIntegral, occupancy
from common.kv.hashing import extend_chain
from tests.support.engines import ROOT, Bench, greedy, key, prompt_of
from tests.support.sequences import cache_of, running, waiting


def brute_force(bench: Bench, block_tokens: int) -> Occupancy:
    """Slot by slot: who owns it, which of its token slots hold something."""
    engine = bench.engine
    live: dict[int, set[int]] = {}
    for sequence in [*engine._running, *engine._held.values()]:
        for index, slot in enumerate(sequence.table):
            inside = min(block_tokens, max(0, sequence.computed - index * block_tokens))
            live.setdefault(slot, set()).update(range(inside))
    return Occupancy(
        blocks_used=len(live),
        blocks_empty=sum(not tokens for tokens in live.values()),
        tokens_live=sum(len(tokens) for tokens in live.values()),
    )


@pytest.mark.parametrize("slots", [12, 40])
def test_every_step_of_a_mixed_load_agrees_with_the_pool_itself(slots: int) -> None:
    """Shared prefixes, several choices, chunks, preemptions."""
    bench = Bench(slots=slots, block_tokens=16, limits=EngineLimits(step_tokens=24))
    for index in range(6):
        prompt = prompt_of(20 + 13 * index, seed=index % 2)
        bench.add(f"r{index}", prompt, greedy(30, n=1 + index % 3, temperature=0.5))
    held = prompt_of(40, seed=7)
    seen: set[Occupancy] = set()
    for step in range(500):
        if step == 20:
            bench.engine.handle(Add(key("held"), held, extend_chain(ROOT, held), ROOT, greedy(2)))
        bench.step()
        now = bench.engine.occupancy()
        assert now == brute_force(bench, 16)
        seen.add(now)
        if not bench.engine.busy:
            break
    assert not bench.engine.busy
    assert len(seen) > 30


def test_the_integral_is_the_sum_over_time() -> None:
    rng = np.random.default_rng(3)
    integral = OccupancyIntegral(16)
    integral.observe(Occupancy(0, 0, 0), 100.0)
    now, allocated, live, empty = 100.0, 0.0, 0.0, 0.0
    for _ in range(200):
        used, nothing = int(rng.integers(2, 50)), int(rng.integers(0, 2))
        tokens = int(rng.integers(0, (used - nothing) * 16 + 1))
        seconds = float(rng.random())
        integral.observe(Occupancy(used, nothing, tokens), now)
        allocated += seconds * (used - nothing) * 16
        empty += seconds * nothing * 16
        live += seconds * tokens
        now += seconds
    integral.observe(Occupancy(0, 0, 0), now)
    assert (integral.live, integral.empty) == pytest.approx((live, empty))
    assert integral.tail == pytest.approx(allocated - live)
    assert integral.waste == pytest.approx(1 - live / allocated)
    assert integral.reserved_share == pytest.approx(empty / (allocated + empty))
    integral.observe(Occupancy(0, 0, 0), now + 1_000)
    assert integral.waste == pytest.approx(1 - live / allocated), "an idle worker wastes nothing"


def test_before_anything_ran_nothing_was_wasted() -> None:
    integral = OccupancyIntegral(16)
    assert (integral.waste, integral.reserved_share) == (0.0, 0.0)
    integral.observe(Occupancy(3, 1, 20), 5.0)
    assert integral.current == Occupancy(3, 1, 20)


def test_reserved_blocks_are_a_promise_and_not_a_loss() -> None:
    cache = cache_of(20)
    sequence = running(cache, "a", 100, computed=40)
    assert occupancy([sequence], cache.used, 16) == Occupancy(7, 4, 40)
    assert occupancy([waiting("b", 50)], cache.used, 16).blocks_empty == 0


def test_a_run_beyond_what_is_filled_is_reserved() -> None:
    bench = Bench(16, 16, EngineLimits(context_tokens=128, allocator="contiguous_max"))
    bench.add("a", prompt_of(40), greedy(20))
    seen = []
    while bench.step() or bench.engine.busy:
        seen.append(bench.engine.occupancy())
        assert seen[-1] == brute_force(bench, 16)
    assert Occupancy(8, 5, 40) in seen
    assert Occupancy(8, 4, 55) in seen


def test_blocks_that_padding_alone_owns_hold_nothing_that_lives() -> None:
    cache = cache_of(20)
    living, gone = running(cache, "a", 40, computed=40), running(cache, "b", 40, computed=40)
    for slot in living.table[:1]:
        cache.retain(slot)
    cache.release(gone.table[:1])
    gone.table[0] = living.table[0]
    assert occupancy([living], cache.used, 16, [gone]) == Occupancy(5, 0, 40)


def conversation_lengths(count: int, seed: int) -> list[tuple[int, int]]:
    """Prompt and output lengths with the means of a public conversation trace (1,155 and 211) and
    the long tails that such lengths have."""
    rng = np.random.default_rng(seed)
    raw = rng.lognormal(0.0, [[0.9, 0.7]], (count, 2))
    scaled = raw / raw.mean(axis=0) * [1155, 211]
    return [(int(prompt), int(output)) for prompt, output in np.clip(scaled, 1, 6000).round()]


def test_waste_on_conversations_is_at_most_four_percent() -> None:
    lengths = conversation_lengths(24, seed=1)
    assert np.mean(lengths, axis=0) == pytest.approx([1155, 211], rel=0.02)
    bench = Bench(slots=600, limits=EngineLimits(step_tokens=512, max_sequences=8))
    for index, (prompt, output) in enumerate(lengths):
        bench.add(f"r{index}", prompt_of(prompt, seed=index), greedy(output))
    while bench.engine.busy or bench.engine.running:
        bench.step()
    assert 0.0 < bench.engine.integral.waste <= 0.04
    expected = np.mean([15.5 / (prompt + output / 2 + 15.5) for prompt, output in lengths])
    assert bench.engine.integral.waste == pytest.approx(expected, rel=0.7)
