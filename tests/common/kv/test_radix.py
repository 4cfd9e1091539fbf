"""The tree against a dictionary of sets, its bound, and its speed."""

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from common.domain.errors import ProtocolError
from common.domain.ids import UnitHash
from common.kv.hashing import chain_root, extend_chain
from common.kv.radix import RadixTree

ROOT = chain_root("digest")
MANY = 1_000_000


def chain(*branches: int, units: int = 4) -> list[UnitHash]:
    """`units` hashes per branch number, each branch continuing the one before."""
    hashes: list[UnitHash] = []
    for branch in branches:
        parent = hashes[-1] if hashes else ROOT
        hashes += extend_chain(parent, [branch] * 16 * units)
    return hashes


def test_a_match_counts_leading_units_per_holder() -> None:
    tree = RadixTree(MANY)
    near, far = tree.add_holder(), tree.add_holder()
    tree.hold(near, ROOT, chain(1, 2))
    tree.hold(far, ROOT, chain(1))
    assert tree.match(chain(1, 2, 3)) == {near: 8, far: 4}
    assert tree.match(chain(1, 9)) == {near: 4, far: 4}
    assert tree.match(chain(9)) == {}
    assert tree.match([]) == {}


def test_a_hole_ends_a_match_and_closes_again() -> None:
    tree = RadixTree(MANY)
    holder = tree.add_holder()
    units = chain(1)
    tree.hold(holder, ROOT, units)
    tree.release(holder, units[1:2])
    assert tree.match(units) == {holder: 1}
    tree.hold(holder, units[0], units[1:2])
    assert tree.match(units) == {holder: 4}


def test_another_holder_does_not_fill_a_hole() -> None:
    tree = RadixTree(MANY)
    one, two = tree.add_holder(), tree.add_holder()
    units = chain(1)
    tree.hold(one, ROOT, units)
    tree.hold(two, ROOT, units)
    tree.release(one, units[1:2])
    assert tree.match(units) == {one: 1, two: 4}


def test_units_known_before_their_parents_count_once_the_parents_come() -> None:
    tree = RadixTree(MANY)
    holder = tree.add_holder()
    units = chain(1)
    for parent, unit in reversed(list(pairwise([ROOT, *units]))):
        assert tree.match(units) == {}
        tree.hold(holder, parent, [unit])
    assert tree.match(units) == {holder: 4}


def test_nothing_is_left_when_everything_is_released() -> None:
    tree = RadixTree(MANY)
    one, two = tree.add_holder(), tree.add_holder()
    tree.hold(one, ROOT, chain(1, 2))
    tree.hold(two, ROOT, chain(1, 3))
    tree.release(one, chain(1))
    tree.drop_holder(two)
    assert len(tree) > 0
    tree.release(one, chain(1, 2))
    assert len(tree) == 0


def test_a_dropped_holder_s_number_starts_empty() -> None:
    tree = RadixTree(MANY)
    old = tree.add_holder()
    tree.hold(old, ROOT, chain(1))
    tree.drop_holder(old)
    assert tree.add_holder() == old
    assert tree.match(chain(1)) == {}


def test_the_leaf_used_longest_ago_is_dropped_first() -> None:
    tree = RadixTree(13)
    holder = tree.add_holder()
    for branch in (1, 2, 3):
        tree.hold(holder, ROOT, chain(branch))
    tree.match(chain(1))
    tree.hold(holder, ROOT, chain(4, units=2))
    assert tree.match(chain(1)) == {holder: 4}
    assert tree.match(chain(2)) == {holder: 2}
    assert tree.match(chain(3)) == {holder: 4}
    assert len(tree) == 13


def test_a_match_that_ends_inside_protects_what_leads_there() -> None:
    tree = RadixTree(9)
    holder = tree.add_holder()
    tree.hold(holder, ROOT, chain(1, 2))
    tree.match(chain(1))
    tree.hold(holder, ROOT, chain(3))
    assert tree.match(chain(1)) == {holder: 4}
    assert tree.match(chain(1, 2)) == {holder: 4}


def test_use_below_a_node_counts_for_it_when_what_was_below_is_gone() -> None:
    tree = RadixTree(9)
    holder = tree.add_holder()
    tree.hold(holder, ROOT, chain(1))
    tree.hold(holder, ROOT, chain(2))
    tree.match(chain(1))
    tree.release(holder, chain(1)[3:])
    tree.hold(holder, ROOT, chain(3, units=2))
    assert tree.match(chain(1)) == {holder: 3}
    assert tree.match(chain(2)) == {holder: 3}


def test_a_dropped_leaf_is_dropped_for_every_holder() -> None:
    tree = RadixTree(5)
    one, two = tree.add_holder(), tree.add_holder()
    tree.hold(one, ROOT, chain(1))
    tree.hold(two, ROOT, chain(1))
    tree.hold(two, ROOT, chain(2))
    assert tree.count(one) == 0
    assert tree.held(two) == set(chain(2))


def test_what_cannot_be_a_chain_is_refused_and_leaves_a_sound_tree() -> None:
    tree = RadixTree(MANY)
    holder = tree.add_holder()
    units = chain(1)
    tree.hold(holder, ROOT, units)
    with pytest.raises(ProtocolError, match="two parents"):
        tree.hold(holder, units[2], [units[0]])
    circle = chain(2, units=2)
    tree.hold(holder, circle[0], [circle[1]])
    with pytest.raises(ProtocolError, match="ancestors"):
        tree.hold(holder, circle[1], [circle[0]])
    with pytest.raises(ProtocolError, match="ancestors"):
        tree.hold(holder, chain(3)[0], [chain(3)[0]])
    tree.drop_holder(holder)
    assert len(tree) == 0


def test_storing_and_releasing_for_ever_keeps_no_traces() -> None:
    tree = RadixTree(MANY)
    holder = tree.add_holder()
    for branch in range(5_000):
        tree.hold(holder, ROOT, chain(branch, units=1))
        tree.release(holder, chain(branch, units=1))
    assert len(tree) == 0
    assert len(tree._leaves) < 2_000


@settings(max_examples=60, deadline=None)
@given(
    st.integers(4, 30),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), max_size=30),
)
def test_the_bound_holds_and_counts_agree(bound: int, paths: list[tuple[int, ...]]) -> None:
    tree = RadixTree(bound)
    holder = tree.add_holder()
    for path in paths:
        tree.hold(holder, ROOT, chain(*path, units=1))
        assert len(tree) <= max(bound, 4)
        assert tree.count(holder) <= len(tree)
    tree.release_all(holder)
    assert len(tree) == 0


class AgainstSets(RuleBasedStateMachine):
    """Any order of operations of three holders over a small tree of chains."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = RadixTree(MANY)
        self.model: dict[int, set[UnitHash]] = {self.tree.add_holder(): set() for _ in range(3)}

    paths = st.lists(st.integers(0, 2), min_size=1, max_size=4)

    @rule(holder=st.integers(0, 2), path=paths, skip=st.integers(0, 3))
    def hold(self, holder: int, path: list[int], skip: int) -> None:
        units = chain(*path, units=1)
        skip = min(skip, len(units) - 1)
        parent = units[skip - 1] if skip else ROOT
        self.tree.hold(holder, parent, units[skip:])
        self.model[holder].update(units[skip:])

    @rule(holder=st.integers(0, 2), path=paths, skip=st.integers(0, 3))
    def release(self, holder: int, path: list[int], skip: int) -> None:
        units = chain(*path, units=1)[skip:]
        self.tree.release(holder, units)
        self.model[holder].difference_update(units)

    @rule(holder=st.integers(0, 2))
    def drop(self, holder: int) -> None:
        self.tree.drop_holder(holder)
        assert self.tree.add_holder() == holder
        self.model[holder] = set()

    @rule(path=paths)
    def match(self, path: list[int]) -> None:
        units = chain(*path, units=1)
        expected = {}
        for holder, held in self.model.items():
            count = next((i for i, unit in enumerate(units) if unit not in held), len(units))
            if count:
                expected[holder] = count
        assert self.tree.match(units) == expected

    @invariant()
    def holders_have_what_they_hold(self) -> None:
        for holder, held in self.model.items():
            assert self.tree.held(holder) == held

    @invariant()
    def it_is_empty_when_nobody_holds(self) -> None:
        assert (len(self.tree) == 0) == (not any(self.model.values()))


TestAgainstSets = AgainstSets.TestCase
TestAgainstSets.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_matching_2000_units_among_200000_takes_less_than_a_millisecond() -> None:
    tree = RadixTree(MANY)
    holders = [tree.add_holder() for _ in range(8)]
    for branch in range(100):
        tree.hold(holders[branch % 8], ROOT, chain(branch, units=2_000))
    long = chain(0, units=2_000)
    for number, holder in enumerate(holders):
        tree.hold(holder, ROOT, long[: 200 * (number + 1)])
    times = []
    for _ in range(20):
        start = time.perf_counter()
        matched = tree.match(long)
        times.append(time.perf_counter() - start)
    assert len(matched) == 8
    assert min(times) < 0.001
