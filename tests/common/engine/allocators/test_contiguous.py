"""One run a sequence: how long, and where."""

import pytest

from common.engine.allocators.contiguous import (
    Contiguous,
    Foresight,
    exactly,
    longest,
    next_power_of_two,
)
from tests.support.engines import ROOT
from tests.support.sequences import BLOCK_TOKENS, cache_of, waiting

CONTEXT = 256


def allocator(slots: int, foresight: Foresight = exactly) -> Contiguous:
    return Contiguous(cache_of(slots), BLOCK_TOKENS, CONTEXT, foresight=foresight)


@pytest.mark.parametrize(
    ("foresight", "max_tokens", "blocks"),
    [
        (exactly, 1, 3),
        (exactly, 8, 3),
        (exactly, 9, 4),
        (next_power_of_two, 9, 4),
        (next_power_of_two, 33, 7),
        (next_power_of_two, 64, 7),
        (next_power_of_two, 65, 11),
        (longest, 1, 16),
        (exactly, 10_000, 16),
        (next_power_of_two, 10_000, 16),
    ],
)
def test_a_run_is_the_prompt_and_what_is_foreseen_but_no_more_than_the_context(
    foresight: Foresight, max_tokens: int, blocks: int
) -> None:
    sequence = waiting("a", 40, max_tokens=max_tokens)
    assert allocator(20, foresight).reserve(sequence, 40)
    first = sequence.table[0]
    assert sequence.table == list(range(first, first + blocks))
    assert (sequence.computed, sequence.named) == (0, 0)


def test_what_comes_back_after_a_preemption_has_the_run_it_had() -> None:
    blocks = allocator(20)
    sequence = waiting("a", 40, max_tokens=40)
    assert blocks.reserve(sequence, 40)
    before = sequence.table
    blocks.cache.release(before)
    sequence.output = [1] * 30
    assert blocks.reserve(sequence, 70)
    assert sequence.table == before


def test_a_prompt_longer_than_the_context_still_has_room_for_itself() -> None:
    sequence = waiting("a", CONTEXT + 1, max_tokens=1)
    assert allocator(20, longest).reserve(sequence, CONTEXT + 1)
    assert len(sequence.table) == 17


def test_free_slots_that_are_not_adjacent_are_no_room() -> None:
    blocks = allocator(8)
    three = [waiting(name, 32, max_tokens=16) for name in "ab"]
    assert all(blocks.reserve(sequence, 32) for sequence in three)
    blocks.cache.release(three[0].table)
    assert blocks.cache.available == 5
    large = waiting("c", 48, max_tokens=16)
    assert not blocks.reserve(large, 48)
    assert large.table == []
    small = waiting("d", 32, max_tokens=16)
    assert blocks.reserve(small, 32)
    assert small.table == [0, 1, 2], "the first run that is long enough"


def test_a_known_prefix_is_not_used() -> None:
    blocks = allocator(8)
    sequence = waiting("a", 40, max_tokens=8)
    slots = blocks.cache.allocate(1)
    assert slots is not None
    blocks.cache.name(slots[0], ROOT, (sequence.units[0],))
    assert blocks.reserve(sequence, 40)
    assert slots[0] not in sequence.table


def test_a_twin_has_a_run_of_its_own_and_all_that_is_computed_to_copy() -> None:
    blocks = allocator(9)
    leader, twin = (waiting("a", 40, max_tokens=24) for _ in range(2))
    assert blocks.reserve(leader, 40)
    leader.computed = 40
    assert blocks.fork(leader, twin) == [(0, 4), (1, 5), (2, 6)]
    assert (twin.table, twin.computed) == ([4, 5, 6, 7], 40)
    assert blocks.fork(leader, waiting("a", 40, max_tokens=24)) is None
