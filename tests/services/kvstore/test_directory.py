"""The table of a block copy, and random histories of a whole directory."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from common.domain.block import Descriptor
from common.domain.errors import InvalidTransition
from common.domain.ids import UnitHash
from services.kvstore.directory import (
    TRANSITIONS,
    BlockCopy,
    BlockSpec,
    CopyState,
    Directory,
    Evicted,
    FillFailed,
    FillStarted,
    LeaseEnded,
    LeaseTaken,
    Verified,
    advance,
)
from services.kvstore.eviction.lru import Lru
from tests.support.blocks import LAYOUT, ROOT, Chain

DESCRIPTOR = Descriptor(0, 1, 2)
EVENTS = (FillStarted(), Verified(DESCRIPTOR), FillFailed(), LeaseTaken(), LeaseEnded(), Evicted())
WAY_TO = {
    CopyState.RESERVED: (),
    CopyState.FILLING: EVENTS[:1],
    CopyState.HELD: EVENTS[:2],
    CopyState.LEASED: (*EVENTS[:2], LeaseTaken()),
    CopyState.FREED: (*EVENTS[:2], Evicted()),
}


def spec(name: str, parent: UnitHash = ROOT) -> BlockSpec:
    unit = UnitHash(name.encode().ljust(32, b"."))
    return BlockSpec(unit, parent, (unit,), LAYOUT)


def specs(chain: Chain) -> list[BlockSpec]:
    units, names = chain.units, chain.names
    parents = [ROOT, *names]
    return [
        BlockSpec(names[i], parents[i], tuple(units[2 * i : 2 * i + 2]), chain.layout)
        for i in range(chain.blocks)
    ]


def hold(directory: Directory, block: BlockSpec, now: float) -> int:
    reservation = directory.reserve(block, now)
    assert reservation is not None
    directory.start_fill(block.name, now)
    directory.commit(block.name, Descriptor(reservation.slot, 1, 2), now)
    return reservation.slot


@pytest.mark.parametrize("state", CopyState)
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_in_every_state_moves_by_its_row_or_raises_with_the_story(
    state: CopyState, event: object
) -> None:
    copy = BlockCopy(spec("a"), slot=3, used_at=0.0)
    for i, step in enumerate(WAY_TO[state]):
        advance(copy, step, float(i))
    assert copy.state is state
    row = TRANSITIONS.get((state, type(event)))
    if row is None:
        with pytest.raises(InvalidTransition, match="slot 3"):
            advance(copy, event, 9.0)
        assert copy.state is state
    else:
        advance(copy, event, 9.0)
        assert copy.state in row
        assert copy.story[-1].before is state
        assert copy.story[-1].at == 9.0


def test_a_copy_stays_leased_until_its_last_lease_ends() -> None:
    copy = BlockCopy(spec("a"), 0, 0.0)
    states = []
    for event in (*EVENTS[:2], LeaseTaken(), LeaseTaken(), LeaseEnded(), LeaseEnded()):
        advance(copy, event, 0.0)
        states.append(copy.state)
    held, leased = CopyState.HELD, CopyState.LEASED
    assert states == [CopyState.FILLING, held, leased, leased, leased, held]


def test_a_block_is_found_only_after_its_commit() -> None:
    directory, block = Directory(2, Lru()), spec("a")
    reservation = directory.reserve(block, 0.0)
    assert reservation is not None
    assert directory.find([block.name], LAYOUT) == []
    directory.start_fill(block.name, 0.0)
    assert directory.find([block.name], LAYOUT) == []
    assert block.name in directory
    directory.commit(block.name, DESCRIPTOR, 0.0)
    assert [copy.descriptor for copy in directory.find([block.name], LAYOUT)] == [DESCRIPTOR]


def test_a_failed_fill_frees_its_slot_and_leaves_nothing_to_find() -> None:
    directory, block = Directory(1, Lru()), spec("a")
    for started in (False, True):
        assert directory.reserve(block, 0.0) is not None
        if started:
            directory.start_fill(block.name, 0.0)
        directory.abandon(block.name, 0.0)
        assert block.name not in directory
        directory.check_invariants()


def test_find_stops_at_the_first_gap_and_at_another_layout() -> None:
    directory, chain = Directory(8, Lru()), specs(Chain(1, 4))
    for block in (chain[0], chain[1], chain[3]):
        hold(directory, block, 0.0)
    names = [block.name for block in chain]
    assert [copy.spec for copy in directory.find(names, LAYOUT)] == chain[:2]
    assert [copy.spec for copy in directory.find(names[3:], LAYOUT)] == chain[3:]
    other = Chain(1, 1, LAYOUT.__class__("bfloat16", 32, 1, 0, 1, 32)).layout
    assert other.block_bytes == LAYOUT.block_bytes
    assert directory.find(names, other) == []


def test_the_least_recently_used_leaf_goes_first_and_is_reported_by_units() -> None:
    directory = Directory(4, Lru())
    old, new = specs(Chain(1, 2)), specs(Chain(2, 2))
    for now, block in enumerate((*old, *new)):
        hold(directory, block, float(now))
    order = []
    for name in "abc":
        reservation = directory.reserve(spec(name), 9.0)
        assert reservation is not None
        order.append(reservation.removed)
        directory.check_invariants()
    assert order == [old[1].units, old[0].units, new[1].units]


def test_a_touched_block_outlives_an_untouched_one() -> None:
    directory = Directory(2, Lru())
    hold(directory, spec("a"), 1.0)
    hold(directory, spec("b"), 2.0)
    directory.touch(spec("a").name, 3.0)
    reservation = directory.reserve(spec("c"), 4.0)
    assert reservation is not None
    assert reservation.removed == spec("b").units


def test_a_leased_block_is_never_the_victim() -> None:
    directory = Directory(2, Lru())
    slot = hold(directory, spec("a"), 1.0)
    hold(directory, spec("b"), 2.0)
    directory.lease([spec("a").name], 3.0)
    taken = [directory.reserve(spec(name), 4.0) for name in "cd"]
    assert taken[0] is not None
    assert taken[0].slot != slot
    assert taken[1] is None
    assert [copy.slot for copy in directory.find([spec("a").name], LAYOUT)] == [slot]


def test_a_block_is_not_evicted_for_the_one_that_continues_it() -> None:
    directory, chain = Directory(1, Lru()), specs(Chain(1, 2))
    hold(directory, chain[0], 0.0)
    assert directory.reserve(chain[1], 1.0) is None
    directory.check_invariants()
    assert directory.reserve(spec("a"), 2.0) is not None


def test_flush_takes_whole_chains_and_leaves_what_is_read_or_awaited() -> None:
    directory = Directory(8, Lru())
    chain, read = specs(Chain(1, 3)), specs(Chain(2, 2))
    for block in (*chain, *read):
        hold(directory, block, 0.0)
    directory.lease([read[1].name], 1.0)
    directory.reserve(spec("coming"), 1.0)
    removed = directory.flush(2.0)
    assert sorted(removed) == sorted(unit for block in chain for unit in block.units)
    assert {copy.spec.name for copy in directory.visible()} == {block.name for block in read}
    directory.check_invariants()


class Histories(RuleBasedStateMachine):
    """Three chains that share a prefix compete for six slots."""

    def __init__(self) -> None:
        super().__init__()
        trunk = specs(Chain(1, 3))
        left = [spec("l1", trunk[-1].name), spec("l2", spec("l1").name)]
        right = [spec("r1", trunk[0].name), spec("r2", spec("r1").name)]
        self.blocks = [*trunk, *left, *right, *specs(Chain(2, 3))]
        self.directory = Directory(6, Lru())
        self.now = 0.0
        self.waiting: dict[UnitHash, int] = {}
        self.started: set[UnitHash] = set()
        self.leases: list[UnitHash] = []
        self.leased_slots: dict[UnitHash, int] = {}

    def block(self, number: int) -> BlockSpec:
        self.now += 1.0
        return self.blocks[number % len(self.blocks)]

    @rule(number=st.integers(0, 99), started=st.booleans())
    def reserve(self, number: int, started: bool) -> None:
        block = self.block(number)
        if block.name in self.directory:
            self.directory.touch(block.name, self.now)
            return
        reservation = self.directory.reserve(block, self.now)
        if reservation is None:
            return
        assert reservation.slot not in self.leased_slots.values()
        self.waiting[block.name] = reservation.slot
        if started:
            self.directory.start_fill(block.name, self.now)
            self.started.add(block.name)

    @precondition(lambda self: self.waiting)
    @rule(number=st.integers(0, 99), good=st.booleans())
    def end_fill(self, number: int, good: bool) -> None:
        name = list(self.waiting)[number % len(self.waiting)]
        slot = self.waiting.pop(name)
        if name not in self.started:
            self.directory.start_fill(name, self.now)
        self.started.discard(name)
        if good:
            self.directory.commit(name, Descriptor(slot, 1, 2), self.now)
        else:
            self.directory.abandon(name, self.now)

    @rule(first=st.integers(0, 99), count=st.integers(1, 4))
    def lookup(self, first: int, count: int) -> None:
        self.block(0)
        start = first % len(self.blocks)
        names = [block.name for block in self.blocks[start : start + count]]
        found = self.directory.find(names, LAYOUT)
        self.directory.lease([copy.spec.name for copy in found], self.now)
        for copy in found:
            self.leases.append(copy.spec.name)
            assert self.leased_slots.setdefault(copy.spec.name, copy.slot) == copy.slot

    @precondition(lambda self: self.leases)
    @rule(number=st.integers(0, 99))
    def give_back(self, number: int) -> None:
        name = self.leases.pop(number % len(self.leases))
        self.directory.unlease([name], self.now)
        if name not in self.leases:
            del self.leased_slots[name]

    @rule()
    def flush(self) -> None:
        self.directory.flush(self.now)
        assert all(name in self.directory for name in (*self.leases, *self.waiting))

    @invariant()
    def nothing_is_inconsistent(self) -> None:
        self.directory.check_invariants()
        for name, slot in self.leased_slots.items():
            (copy,) = self.directory.find([name], LAYOUT)
            assert copy.slot == slot


Histories.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestHistories = Histories.TestCase
