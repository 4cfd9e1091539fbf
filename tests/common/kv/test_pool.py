"""Slots: free, or owned by a counted number of owners."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from common.kv.pool import SlotPool

SLOTS = 4


def test_generations_are_bumped_before_a_slot_is_handed_out() -> None:
    said: list[int] = []
    pool = SlotPool(3, said.append)
    taken = [pool.take() for _ in range(3)]
    assert said == taken
    assert sorted(taken) == [0, 1, 2]
    pool.drop(taken[1])
    assert said == taken, "freeing changes nothing yet"
    pool.put_back(taken[1])
    assert pool.take() == taken[1]
    assert said == [*taken, taken[1]]


def test_an_empty_pool_has_nothing_to_give() -> None:
    said: list[int] = []
    pool = SlotPool(1, said.append)
    pool.take()
    with pytest.raises(IndexError):
        pool.take()
    assert said == [0]


def test_what_nobody_owns_cannot_be_dropped_and_what_somebody_owns_not_put_back() -> None:
    pool = SlotPool(2, lambda slot: None)
    slot = pool.take()
    with pytest.raises(ValueError, match="still referenced"):
        pool.put_back(slot)
    assert pool.drop(slot) == 0
    with pytest.raises(ValueError, match="no reference"):
        pool.drop(slot)


def test_a_run_is_the_first_that_is_long_enough_and_leaves_the_order_of_the_others() -> None:
    said: list[int] = []
    pool = SlotPool(8, said.append)
    taken = [pool.take() for _ in range(8)]
    for slot in (6, 1, 5, 2, 0, 4):
        pool.drop(taken[slot])
        pool.put_back(taken[slot])
    said.clear()
    assert pool.take_run(4) is None
    assert said == []
    assert pool.take_run(2) == [0, 1]
    assert said == [0, 1]
    assert [pool.refs(slot) for slot in (0, 1, 2)] == [1, 1, 0]
    assert pool.take_run(3) == [4, 5, 6]
    assert [pool.take(), pool.free] == [2, 0]


class PoolMachine(RuleBasedStateMachine):
    """Against a dictionary of counts; kept slots have none and are not free."""

    def __init__(self) -> None:
        super().__init__()
        self.bumped: list[int] = []
        self.pool = SlotPool(SLOTS, self.bumped.append)
        self.counts: dict[int, int] = {}

    @precondition(lambda self: len(self.counts) < SLOTS)
    @rule()
    def take(self) -> None:
        slot = self.pool.take()
        assert slot not in self.counts
        assert self.bumped[-1] == slot
        self.counts[slot] = 1

    @rule(count=st.integers(1, SLOTS))
    def take_run(self, count: int) -> None:
        free = [slot not in self.counts for slot in range(SLOTS)]
        fits = (at for at in range(SLOTS - count + 1) if all(free[at : at + count]))
        first = next(fits, None)
        run = self.pool.take_run(count)
        assert run == (None if first is None else list(range(first, first + count)))
        for slot in run or ():
            self.counts[slot] = 1
        assert not run or self.bumped[-count:] == run

    @precondition(lambda self: self.counts)
    @rule(data=st.data())
    def retain(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from(sorted(self.counts)))
        self.pool.retain(slot)
        self.counts[slot] += 1

    @precondition(lambda self: any(self.counts.values()))
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        owned = sorted(slot for slot, count in self.counts.items() if count)
        slot = data.draw(st.sampled_from(owned))
        self.counts[slot] -= 1
        assert self.pool.drop(slot) == self.counts[slot]

    @precondition(lambda self: 0 in self.counts.values())
    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        kept = sorted(slot for slot, count in self.counts.items() if not count)
        slot = data.draw(st.sampled_from(kept))
        self.pool.put_back(slot)
        del self.counts[slot]

    @invariant()
    def counts_agree(self) -> None:
        assert self.pool.free == SLOTS - len(self.counts)
        assert all(self.pool.refs(slot) == count for slot, count in self.counts.items())


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
