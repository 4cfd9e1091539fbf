"""Filled blocks get names, and the router hears of them in few events."""

import pytest

from common.domain.ids import UnitHash
from common.engine.job import CacheChanged
from common.engine.naming import cache_changes, name_blocks
from common.engine.prefix_cache import CacheEvent, CacheRemoved, CacheStored
from common.kv.hashing import block_names, extend_chain
from tests.support.engines import ROOT
from tests.support.sequences import cache_of, running


@pytest.mark.parametrize(("block_tokens", "per_block"), [(16, 1), (32, 2), (64, 4)])
def test_whole_blocks_are_named_with_all_their_units(block_tokens: int, per_block: int) -> None:
    cache = cache_of(20)
    sequence = running(cache, "a", 150, computed=140)
    name_blocks(sequence, cache, block_tokens)
    whole = 140 // block_tokens
    units = extend_chain(ROOT, sequence.prompt)
    stored = cache.contents()
    assert [block.units[-1] for block in stored] == block_names(units, block_tokens)[:whole]
    assert all(len(block.units) == per_block for block in stored)
    assert [block.parent for block in stored] == [
        ROOT,
        *(block.units[-1] for block in stored[:-1]),
    ]
    assert cache.match([block.units[-1] for block in stored]) == sequence.table[:whole]
    assert sequence.named == whole


def test_the_chain_goes_on_over_generated_tokens() -> None:
    cache = cache_of(20)
    sequence = running(cache, "a", 20, computed=20, output=60)
    sequence.units = sequence.units[:1]
    name_blocks(sequence, cache, 16)
    assert len(cache.contents()) == 1
    sequence.table += cache.allocate(3) or []
    sequence.computed = 79
    name_blocks(sequence, cache, 16)
    expected = extend_chain(ROOT, sequence.prompt + sequence.output)[:4]
    assert [block.units for block in cache.contents()] == [(unit,) for unit in expected]
    assert sequence.units == expected


def test_nothing_is_named_twice_and_nothing_without_a_root() -> None:
    cache = cache_of(20)
    sequence = running(cache, "a", 64, computed=64)
    name_blocks(sequence, cache, 32)
    cache.events.clear()
    name_blocks(sequence, cache, 32)
    assert cache.events == []
    private = running(cache, "b", 64, arrival=1, computed=64)
    private.root = UnitHash(b"")
    name_blocks(private, cache, 32)
    assert cache.events == []
    assert private.named == 0


def stored(name: str) -> CacheStored:
    return CacheStored(UnitHash(name[:-1].encode()), (UnitHash(name.encode()),))


def removed(name: str) -> CacheRemoved:
    return CacheRemoved((UnitHash(name.encode()),))


def told(changes: list[CacheEvent]) -> list[tuple[list[bytes], list[bytes]]]:
    return [
        ([block.units[-1] for block in event.stored], list(event.removed))
        for event in cache_changes(changes)
    ]


def test_changes_are_gathered_as_far_as_their_order_allows() -> None:
    assert told([]) == []
    assert told([stored("a"), stored("ab")]) == [([b"a", b"ab"], [])]
    assert told([removed("a"), removed("b")]) == [([], [b"a", b"b"])]
    assert told([stored("a"), removed("b"), removed("c")]) == [([b"a"], [b"b", b"c"])]


def test_what_is_stored_after_a_removal_is_told_after_it() -> None:
    """Within one event stored comes before removed, so the same block removed and stored again
    needs two."""
    changes: list[CacheEvent] = [stored("x"), removed("a"), stored("a"), removed("x"), stored("b")]
    assert told(changes) == [([b"x"], [b"a"]), ([b"a"], [b"x"]), ([b"b"], [])]
    assert isinstance(cache_changes(changes)[0], CacheChanged)
