"""Blocks one by one, prefixes shared."""

from tests.support.engines import ROOT
from tests.support.sequences import cache_of, paged, running, waiting


def test_a_reservation_takes_cached_blocks_and_fresh_ones_or_nothing() -> None:
    cache = cache_of(4)
    allocator = paged(cache)
    known = waiting("known", 33)
    assert allocator.reserve(known, 33)
    for block in range(2):
        parent = known.units[block - 1] if block else ROOT
        cache.name(known.table[block], parent, (known.units[block],))
    again = waiting("again", 50)
    assert again.units[:2] == known.units[:2]
    assert not allocator.reserve(again, 50 + 16)
    assert (again.table, cache.available) == ([], 1)
    shorter = waiting("shorter", 33)
    assert allocator.reserve(shorter, 33)
    assert shorter.table[:2] == known.table[:2]
    assert (shorter.computed, cache.available) == (32, 0)


def test_one_block_stays_for_each_that_runs_and_a_shared_prefix_costs_nothing() -> None:
    cache = cache_of(6)
    allocator = paged(cache)
    owner = running(cache, "owner", 40)
    assert [allocator.admits(waiting("w", 32), others) for others in (1, 2)] == [True, False]
    cache.name(owner.table[0], ROOT, (waiting("w", 32).units[0],))
    assert allocator.admits(waiting("w", 32), 2)


def test_a_twin_shares_whole_blocks_and_has_the_partial_one_to_copy() -> None:
    cache = cache_of(4)
    leader, twin = running(cache, "a", 40, computed=40), waiting("a", 40)
    copies = paged(cache).fork(leader, twin)
    assert copies == [(leader.table[2], twin.table[2])]
    assert twin.table[:2] == leader.table[:2]
    assert [cache._pool.refs(slot) for slot in leader.table] == [2, 2, 1]
    assert (twin.computed, twin.named, cache.available) == (40, 2, 0)
    assert paged(cache).fork(leader, waiting("a", 40)) is None
    assert [cache._pool.refs(slot) for slot in leader.table] == [2, 2, 1]
