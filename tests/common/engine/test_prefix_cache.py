"""The worker's own blocks, against a model that looks through all of them every time."""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from common.domain.ids import UnitHash
from common.engine.prefix_cache import CacheRemoved, CacheStored, PrefixCache

SLOTS = 7


def names_of(path: str) -> list[UnitHash]:
    """A chain: every name is a prefix of the path, as a hash covers what is before it."""
    return [UnitHash(path[: depth + 1].encode()) for depth in range(len(path))]


def filled(cache: PrefixCache, path: str) -> list[int]:
    """Slots of a chain that was computed and named here, owned once."""
    names = names_of(path)
    slots = cache.match(names)
    fresh = cache.allocate(len(path) - len(slots))
    assert fresh is not None
    slots += fresh
    for depth, name in enumerate(names):
        cache.name(slots[depth], UnitHash(path[:depth].encode()), (name,))
    return slots


def new_cache(slots: int = SLOTS) -> PrefixCache:
    return PrefixCache(slots, lambda slot: None)


def test_an_unused_prefix_is_found_again_and_a_used_one_shared() -> None:
    cache = new_cache()
    slots = filled(cache, "abc")
    cache.release(slots)
    assert (cache.used, cache.cached, cache.available) == (0, 3, SLOTS)
    assert cache.match(names_of("abxy")) == slots[:2]
    assert cache.match(names_of("abc")) == slots
    assert (cache.used, cache.cached) == (3, 0)
    assert cache.match(names_of("b")) == []
    cache.check_invariants()


def test_a_run_drops_cached_blocks_that_are_in_the_way() -> None:
    cache = new_cache()
    cache.release(filled(cache, "abc"))
    assert cache.allocate(1) == [3]
    assert cache.allocate_run(4) is None
    assert cache.cached == 0, "nobody used them, and it was worth the try"
    assert cache.allocate_run(3) == [0, 1, 2]
    cache.check_invariants()
    assert cache.allocate_run(SLOTS + 1) is None


def test_a_run_that_is_free_costs_no_cached_block() -> None:
    cache = new_cache()
    cache.release(filled(cache, "abc"))
    assert cache.allocate_run(4) == [3, 4, 5, 6]
    assert cache.cached == 3


def test_what_a_reservation_costs_counts_found_blocks_that_nobody_uses() -> None:
    cache = new_cache()
    slots = filled(cache, "abc")
    assert cache.cost(names_of("abcd"), 4) == 1
    cache.release(slots[1:])
    assert cache.cost(names_of("abcd"), 4) == 3
    assert cache.cost(names_of("x"), 2) == 2
    before = cache.available
    assert cache.match(names_of("abc")) == slots
    assert cache.allocate(1) is not None
    assert before - cache.available == 3


def test_leaves_go_first_and_of_them_the_one_unused_for_longest() -> None:
    cache = new_cache(5)
    old, young = filled(cache, "abc"), filled(cache, "xy")
    cache.release(old)
    cache.release(young)
    cache.release(cache.match(names_of("abc")))
    removed = []
    for _ in range(5):
        assert cache.allocate(1) is not None
        removed += [event.units[0] for event in cache.events if isinstance(event, CacheRemoved)]
        cache.events.clear()
    assert removed == [b"xy", b"x", b"abc", b"ab", b"a"]


def test_nothing_is_evicted_for_a_request_that_cannot_be_met() -> None:
    cache = new_cache(4)
    filled(cache, "ab")
    cache.release(filled(cache, "xy"))
    cache.events.clear()
    assert cache.allocate(3) is None
    assert cache.events == []
    assert cache.cached == 2


def test_a_second_copy_of_a_block_stays_private_to_its_owner() -> None:
    cache = new_cache()
    mine, yours = cache.allocate(1), cache.allocate(1)
    assert mine is not None
    assert yours is not None
    for slots in (mine, yours):
        cache.name(slots[0], UnitHash(b""), (UnitHash(b"a"),))
    assert cache.events == [CacheStored(UnitHash(b""), (UnitHash(b"a"),))]
    cache.release(yours)
    assert cache.cached == 0, "freed, because nobody can find it"
    cache.release(mine)
    assert cache.match(names_of("a")) == mine


def test_an_idle_parent_of_a_used_child_can_be_had_when_nothing_else_is() -> None:
    """Two requests compute the same first block; the second's copy is private, its child is not."""
    cache = new_cache(3)
    first, copy = cache.allocate(1), cache.allocate(2)
    assert first is not None
    assert copy is not None
    cache.name(first[0], UnitHash(b""), (UnitHash(b"a"),))
    cache.name(copy[0], UnitHash(b""), (UnitHash(b"a"),))
    cache.name(copy[1], UnitHash(b"a"), (UnitHash(b"ab"),))
    cache.release(first)
    cache.check_invariants()
    assert cache.available == 1
    assert cache.allocate(1) == first
    assert cache.events[-1] == CacheRemoved((UnitHash(b"a"),))
    cache.check_invariants()
    cache.release(copy)
    assert cache.match(names_of("ab")) == [], "its parent is gone"
    assert cache.allocate(2) is not None
    cache.check_invariants()


def test_a_block_that_got_a_child_meanwhile_is_no_leaf_any_more() -> None:
    """The child's owner had computed its own copy of the parent."""
    cache = new_cache(4)
    first, copy = cache.allocate(1), cache.allocate(2)
    assert first is not None
    assert copy is not None
    cache.name(first[0], UnitHash(b""), (UnitHash(b"a"),))
    cache.release(first)
    cache.release(filled(cache, "x"))
    cache.name(copy[1], UnitHash(b"a"), (UnitHash(b"ab"),))
    cache.events.clear()
    assert cache.allocate(1) is not None
    assert cache.events == [CacheRemoved((UnitHash(b"x"),))], "younger than a, but a leaf"


def test_a_slot_has_one_name() -> None:
    cache = new_cache()
    slots = filled(cache, "a")
    cache.events.clear()
    cache.name(slots[0], UnitHash(b""), (UnitHash(b"b"),))
    assert cache.events == []
    assert cache.match(names_of("b")) == []
    cache.check_invariants()


def test_a_prefix_used_for_ever_leaves_nothing_behind() -> None:
    cache = new_cache()
    cache.release(filled(cache, "abc"))
    for _ in range(1_000):
        cache.release(cache.match(names_of("abc")))
    assert len(cache._idle) < 200
    assert cache.reset() == 3


def test_reset_forgets_what_nobody_uses() -> None:
    cache = new_cache()
    used = filled(cache, "ab")
    cache.release(filled(cache, "xyz"))
    assert cache.reset() == 3
    assert (cache.cached, cache.used) == (0, 2)
    assert cache.match(names_of("xyz")) == []
    assert cache.match(names_of("ab")) == used
    assert [stored.units[-1] for stored in cache.contents()] == [b"a", b"ab"]


def test_a_block_of_several_units_is_named_by_its_last_and_told_with_all() -> None:
    cache = new_cache()
    slots = cache.allocate(1)
    assert slots is not None
    units = (UnitHash(b"1"), UnitHash(b"2"))
    cache.name(slots[0], UnitHash(b"root"), units)
    assert cache.contents() == cache.events == [CacheStored(UnitHash(b"root"), units)]
    assert cache.match([UnitHash(b"1")]) == []
    assert cache.match([UnitHash(b"2")]) == slots
    cache.release([slots[0], slots[0]])
    cache.reset()
    assert cache.events[-1] == CacheRemoved(units)


def test_dropping_what_was_not_taken_is_found() -> None:
    cache = new_cache()
    with pytest.raises(ValueError, match="no reference"):
        cache.release([0])


@dataclass
class Chain:
    """A sequence as the cache sees it: a path, its slots, how many of them it has named."""

    path: str
    slots: list[int]
    named: int


@dataclass
class Known:
    slot: int
    parent: str
    used: int


@dataclass
class Model:
    refs: dict[int, int] = field(default_factory=dict)
    """Of slots with an owner."""
    known: dict[str, Known] = field(default_factory=dict)
    clock: int = 0

    def idle(self) -> list[str]:
        return [name for name, node in self.known.items() if not self.refs.get(node.slot)]

    def free(self) -> int:
        return SLOTS - sum(count > 0 for count in self.refs.values()) - len(self.idle())

    def victims(self) -> list[str]:
        """Any of these may go next."""
        parents = {node.parent for node in self.known.values()}
        pool = [name for name in self.idle() if name not in parents] or self.idle()
        oldest = min(self.known[name].used for name in pool)
        return [name for name in pool if self.known[name].used == oldest]

    def drop(self, slots: list[int]) -> None:
        self.clock += 1
        for slot in slots:
            self.refs[slot] -= 1
            for node in self.known.values():
                if node.slot == slot and not self.refs[slot]:
                    node.used = self.clock


PATHS = st.text("ab", min_size=1, max_size=4)


class CacheMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bumped: list[int] = []
        self.cache = PrefixCache(SLOTS, self.bumped.append)
        self.model = Model()
        self.chains: list[Chain] = []
        self.pins: list[int] = []
        self.told: set[bytes] = set()

    def allocate(self, count: int) -> list[int] | None:
        possible = self.model.free() + len(self.model.idle())
        must_go = count - self.model.free() if count <= possible else 0
        self.bumped.clear()
        slots = self.cache.allocate(count)
        self.hear(must_go)
        if count > possible:
            assert slots is None
            return None
        assert slots is not None
        assert slots == self.bumped
        assert len(set(slots)) == count
        for slot in slots:
            assert not self.model.refs.get(slot)
            assert slot not in {node.slot for node in self.model.known.values()}
            self.model.refs[slot] = 1
        return slots

    def hear(self, evictions: int) -> None:
        """Events must be those evictions, each of a block that was due."""
        removed = [event for event in self.cache.events if isinstance(event, CacheRemoved)]
        assert len(removed) == len(self.cache.events) == max(0, evictions)
        for event in removed:
            name = event.units[-1].decode()
            assert name in self.model.victims()
            del self.model.known[name]
            self.told.remove(event.units[-1])
        self.cache.events.clear()

    def match(self, path: str) -> list[int]:
        slots = self.cache.match(names_of(path))
        expected = []
        for depth in range(len(path)):
            node = self.model.known.get(path[: depth + 1])
            if node is None:
                break
            self.model.refs[node.slot] = self.model.refs.get(node.slot, 0) + 1
            expected.append(node.slot)
        assert slots == expected
        return slots

    def release(self, slots: list[int]) -> None:
        self.cache.release(slots)
        self.model.drop(slots)

    @rule(path=PATHS)
    def admit(self, path: str) -> None:
        used = self.cache.available - self.cache.cost(names_of(path), len(path))
        found = self.match(path)
        fresh = self.allocate(len(path) - len(found))
        if fresh is None:
            self.release(found)
            assert used < 0
            return
        assert self.cache.available == used
        self.chains.append(Chain(path, found + fresh, len(found)))

    @precondition(lambda self: any(chain.named < len(chain.path) for chain in self.chains))
    @rule(data=st.data())
    def name(self, data: st.DataObject) -> None:
        open_chains = [chain for chain in self.chains if chain.named < len(chain.path)]
        chain = open_chains[data.draw(st.integers(0, len(open_chains) - 1))]
        depth = chain.named
        parent, path, slot = chain.path[:depth], chain.path[: depth + 1], chain.slots[depth]
        self.cache.name(slot, UnitHash(parent.encode()), (UnitHash(path.encode()),))
        chain.named += 1
        expected = []
        if path not in self.model.known:
            self.model.clock += 1
            self.model.known[path] = Known(slot, parent, self.model.clock)
            expected = [CacheStored(UnitHash(parent.encode()), (UnitHash(path.encode()),))]
            self.told.add(path.encode())
        assert self.cache.events == expected
        self.cache.events.clear()

    @precondition(lambda self: self.chains)
    @rule(data=st.data())
    def grow(self, data: st.DataObject) -> None:
        chain = self.chains[data.draw(st.integers(0, len(self.chains) - 1))]
        chain.slots += self.allocate(1) or []

    @precondition(lambda self: self.chains)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        chain = self.chains.pop(data.draw(st.integers(0, len(self.chains) - 1)))
        self.release(chain.slots)

    @precondition(lambda self: self.chains)
    @rule(data=st.data())
    def pin(self, data: st.DataObject) -> None:
        chain = self.chains[data.draw(st.integers(0, len(self.chains) - 1))]
        slot = chain.slots[data.draw(st.integers(0, len(chain.slots) - 1))]
        self.cache.retain(slot)
        self.model.refs[slot] += 1
        self.pins.append(slot)

    @precondition(lambda self: self.pins)
    @rule()
    def unpin(self) -> None:
        self.release([self.pins.pop(0)])

    @rule()
    def reset(self) -> None:
        idle = len(self.model.idle())
        assert self.cache.reset() == idle
        self.hear(idle)
        assert not self.model.idle()

    @invariant()
    def books_agree(self) -> None:
        self.cache.check_invariants()
        idle, free = len(self.model.idle()), self.model.free()
        assert self.cache.cached == idle
        assert self.cache.available == free + idle
        assert self.cache.used == SLOTS - free - idle
        contents = self.cache.contents()
        assert {stored.units[-1].decode() for stored in contents} == set(self.model.known)
        assert {stored.units[-1] for stored in contents} == self.told


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


def test_a_unit_that_lies_in_two_blocks_is_removed_with_the_last_of_them() -> None:
    """Blocks of two units that part in their middle."""
    cache, (shared, left, right) = new_cache(2), names_of("abc")
    slots = cache.allocate(2)
    assert slots is not None
    cache.name(slots[0], UnitHash(b""), (shared, left))
    cache.name(slots[1], UnitHash(b""), (shared, right))
    cache.release(slots)
    cache.events.clear()
    cache.reset()
    removed = [event.units for event in cache.events if isinstance(event, CacheRemoved)]
    assert len(removed[0]) == 1
    assert len(removed[1]) == 2
    assert removed[1][0] == shared
