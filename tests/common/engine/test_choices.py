"""n choices of one prompt: what they share, and what of it is copied."""

import pytest

from common.engine.allocators.contiguous import Contiguous, exactly
from common.engine.choices import fork
from common.engine.mock import MockRunner
from common.engine.prefix_cache import PrefixCache
from common.engine.sequence import State
from tests.support.sequences import BLOCK_TOKENS, paged, running, waiting


def runner_over(cache: PrefixCache) -> MockRunner:
    runner = MockRunner(BLOCK_TOKENS)
    size = runner.layout.block_bytes
    content = bytearray(slot for slot in range(cache.slots) for _ in range(size))
    runner.bind(memoryview(content), cache.slots, size)
    return runner


def bumped_cache(slots: int) -> tuple[PrefixCache, list[int]]:
    bumped: list[int] = []
    return PrefixCache(slots, bumped.append), bumped


def test_whole_blocks_are_shared_and_the_tail_is_copied() -> None:
    cache, _ = bumped_cache(8)
    runner = runner_over(cache)
    leader = running(cache, "a", 40, computed=40)
    twin = fork(leader, 2, paged(cache), runner)
    assert twin.state is State.RUNNING
    assert twin.table[:2] == leader.table[:2]
    assert twin.table[2] not in leader.table
    assert runner._pool[twin.table[2]].tobytes() == runner._pool[leader.table[2]].tobytes()
    assert cache.used == 4
    assert (twin.choice, twin.computed, twin.named) == (2, 40, 2)
    assert (twin.key, twin.arrival, twin.prompt) == (leader.key, leader.arrival, leader.prompt)
    cache.release(leader.table)
    assert cache.used == 3, "the twin still has them"
    cache.release(twin.table)
    assert cache.used == 0


def test_a_prompt_of_whole_blocks_has_no_tail_to_copy() -> None:
    cache, bumped = bumped_cache(8)
    leader = running(cache, "a", 32, computed=32)
    before = list(bumped)
    twin = fork(leader, 1, paged(cache), runner_over(cache))
    assert twin.table == leader.table
    assert bumped == before


def test_the_twins_hashes_are_its_own() -> None:
    cache, _ = bumped_cache(8)
    leader = running(cache, "a", 40, computed=40)
    twin = fork(leader, 1, paged(cache), runner_over(cache))
    twin.units.append(twin.units[0])
    twin.output.append(1)
    assert len(leader.units) == 2
    assert leader.output == []


@pytest.mark.parametrize("prompt", [40, 5])
def test_without_room_for_a_tail_the_twin_waits_and_holds_nothing(prompt: int) -> None:
    cache, _ = bumped_cache(-(-prompt // BLOCK_TOKENS))
    leader = running(cache, "a", prompt, computed=prompt)
    twin = fork(leader, 1, paged(cache), runner_over(cache))
    assert twin.state is State.PREEMPTED
    assert (twin.table, twin.computed, twin.named) == ([], 0, 0)
    assert twin.recompute_until == prompt, "computing it again is no prompt work"
    cache.release(leader.table)
    assert cache.used == 0


def test_where_nothing_is_shared_every_choice_has_a_copy_of_all() -> None:
    cache, _ = bumped_cache(8)
    runner = runner_over(cache)
    allocator = Contiguous(cache, BLOCK_TOKENS, 128, foresight=exactly)
    leader = waiting("a", 40, max_tokens=20)
    assert allocator.reserve(leader, 40)
    leader.computed = 40
    twin = fork(leader, 1, allocator, runner)
    assert (twin.state, twin.computed) == (State.RUNNING, 40)
    assert not set(twin.table) & set(leader.table)
    assert runner._pool[twin.table[:3]].tobytes() == runner._pool[leader.table[:3]].tobytes()
    assert runner._pool[twin.table[3]].tobytes() != runner._pool[leader.table[3]].tobytes()
    third = fork(leader, 2, allocator, runner)
    assert (third.state, third.table) == (State.PREEMPTED, [])
