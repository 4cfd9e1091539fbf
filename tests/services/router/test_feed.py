"""Every order, loss, repeat and restart of events ends in what the process really holds."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from common.domain.errors import ProtocolError
from common.domain.ids import UnitHash
from common.domain.peer import Medium
from common.wire.columns import pack_hashes
from common.wire.messages.events import BlocksRemoved, BlocksStored, Snapshot
from services.router.feed import EventFeed
from services.router.index import BlockIndex, Holder
from tests.support.router_world import ROOT, process, prompt_of, units_of

A = process("decode-0")
UNITS = units_of(prompt_of(4))
OTHER = units_of(prompt_of(1, label=9))


def stored(number: int, units: list[UnitHash] = UNITS, parent: UnitHash = ROOT) -> BlocksStored:
    return BlocksStored(number, Medium.DEVICE, parent, pack_hashes(units))


def removed(number: int, units: list[UnitHash]) -> BlocksRemoved:
    return BlocksRemoved(number, Medium.DEVICE, pack_hashes(units))


def snapshot(
    number: int, units: list[UnitHash], part: int = 0, *, last: bool = True, above: UnitHash = ROOT
) -> Snapshot:
    parents = [above, *units][: len(units)]
    return Snapshot(number, Medium.DEVICE, pack_hashes(parents), pack_hashes(units), part, last)


class World:
    def __init__(self) -> None:
        self.index = BlockIndex(10_000)
        self.feed = EventFeed(self.index, A)

    def matched(self, units: list[UnitHash] = UNITS) -> int:
        return self.index.match(units).get(Holder(A, Medium.DEVICE), 0)


def test_events_before_the_first_snapshot_wait_for_it() -> None:
    world = World()
    assert world.feed.event(stored(5)) is False
    assert world.matched() == 0
    assert world.feed.snapshot(snapshot(4, OTHER)) is False
    assert (world.matched(), world.matched(OTHER)) == (8, 2)


def test_events_at_or_below_the_snapshot_are_dropped() -> None:
    world = World()
    world.feed.event(stored(3, OTHER))
    world.feed.event(stored(4, OTHER))
    world.feed.snapshot(snapshot(4, UNITS))
    assert world.feed.event(removed(4, UNITS)) is False
    assert (world.matched(), world.matched(OTHER)) == (8, 0)


def test_a_gap_asks_once_and_the_snapshot_heals_it() -> None:
    world = World()
    world.feed.snapshot(snapshot(0, []))
    assert world.feed.event(stored(1, UNITS[:2])) is False
    assert world.feed.event(removed(3, UNITS[:1])) is True
    assert world.feed.event(stored(4, OTHER)) is False
    assert world.feed.gaps == 1
    assert world.feed.snapshot(snapshot(3, UNITS)) is False
    assert (world.matched(), world.matched(OTHER)) == (8, 2)
    assert not world.feed.blind


def test_a_snapshot_replaces_everything_the_holder_had() -> None:
    world = World()
    world.feed.snapshot(snapshot(0, UNITS))
    world.feed.snapshot(snapshot(7, OTHER))
    assert (world.matched(), world.matched(OTHER)) == (0, 2)


def test_an_unasked_snapshot_older_than_what_is_known_is_dropped() -> None:
    world = World()
    world.feed.snapshot(snapshot(4, []))
    world.feed.event(stored(5))
    assert world.feed.snapshot(snapshot(4, [])) is False
    assert world.matched() == 8


def test_parts_count_only_together() -> None:
    world = World()
    assert world.feed.snapshot(snapshot(2, UNITS[:4], 0, last=False)) is False
    assert world.matched() == 0
    assert world.feed.snapshot(snapshot(2, UNITS[4:], 1, above=UNITS[3])) is False
    assert world.matched() == 8


@pytest.mark.parametrize(
    "wrong",
    [snapshot(2, UNITS[4:], 2, above=UNITS[3]), snapshot(3, UNITS[4:], 1, above=UNITS[3])],
    ids=["a part is missing", "parts of two snapshots"],
)
def test_a_broken_series_is_asked_for_again(wrong: Snapshot) -> None:
    world = World()
    world.feed.snapshot(snapshot(2, UNITS[:4], 0, last=False))
    assert world.feed.snapshot(wrong) is True
    assert world.feed.blind
    assert world.matched() == 0
    world.feed.snapshot(snapshot(2, UNITS))
    assert world.matched() == 8


def test_a_gap_among_the_kept_events_asks_again() -> None:
    world = World()
    for number in (3, 5):
        world.feed.event(stored(number))
    assert world.feed.snapshot(snapshot(2, [])) is True
    assert world.feed.blind
    world.feed.snapshot(snapshot(4, OTHER))
    assert (world.matched(), world.matched(OTHER)) == (8, 2)


def test_a_snapshot_beyond_the_bound_of_the_index_is_taken_as_far_as_it_fits() -> None:
    index = BlockIndex(4)
    feed = EventFeed(index, A)
    feed.snapshot(snapshot(1, UNITS[:4], 0, last=False))
    feed.snapshot(snapshot(1, UNITS[4:6], 1, last=False, above=UNITS[3]))
    feed.snapshot(snapshot(1, UNITS[6:], 2, above=UNITS[5]))
    assert len(index) <= 4
    assert not feed.blind


@pytest.mark.parametrize(
    "message",
    [
        BlocksStored(1, Medium.DEVICE, ROOT, b"short"),
        BlocksStored(1, Medium.DEVICE, b"short", pack_hashes(UNITS)),
        BlocksStored(1, Medium.DEVICE, UNITS[0], UNITS[0]),
        Snapshot(1, Medium.DEVICE, b"", pack_hashes(UNITS)),
    ],
    ids=["broken units", "broken parent", "its own parent", "columns of two lengths"],
)
def test_what_makes_no_sense_is_a_protocol_error(message: BlocksStored | Snapshot) -> None:
    world = World()
    world.feed.snapshot(snapshot(0, []))
    told = world.feed.snapshot if isinstance(message, Snapshot) else world.feed.event
    with pytest.raises(ProtocolError):
        told(message)


class LossyWire(RuleBasedStateMachine):
    """A process that stores and removes, a wire that loses, repeats and delays, restarts of both
    ends. After one undisturbed exchange the index has exactly what the process holds."""

    def __init__(self) -> None:
        super().__init__()
        self.index = BlockIndex(10_000)
        self.restart_router()
        self.restart_process()

    def restart_router(self) -> None:
        self.index = BlockIndex(10_000)
        self.incarnation = getattr(self, "incarnation", 0)
        self.feed = EventFeed(self.index, process("decode-0", self.incarnation))
        self.asked = True

    @rule()
    def router_restarts(self) -> None:
        self.restart_router()

    @rule()
    def restart_process(self) -> None:
        self.index.drop_process(process("decode-0", self.incarnation))
        self.incarnation += 1
        self.held: set[int] = set()
        self.number = 0
        self.wire: list[BlocksStored | BlocksRemoved | Snapshot] = []
        self.feed = EventFeed(self.index, process("decode-0", self.incarnation))
        self.asked = True

    @rule(chain=st.integers(0, 5), arrives=st.sampled_from(["once", "twice", "never"]))
    def change(self, chain: int, arrives: str) -> None:
        self.number += 1
        units = self.units(chain)
        if chain in self.held:
            self.held.remove(chain)
            event: BlocksStored | BlocksRemoved = removed(self.number, units)
        else:
            self.held.add(chain)
            event = stored(self.number, units)
        self.wire += [event] * {"once": 1, "twice": 2, "never": 0}[arrives]

    @rule(arrives=st.booleans())
    def answer(self, arrives: bool) -> None:
        if self.asked and arrives:
            self.wire += self.snapshots()
        self.asked = False

    @rule(count=st.integers(1, 5))
    def deliver(self, count: int) -> None:
        for _ in range(min(count, len(self.wire))):
            message = self.wire.pop(0)
            if isinstance(message, Snapshot):
                self.asked |= self.feed.snapshot(message)
            else:
                self.asked |= self.feed.event(message)

    @rule()
    def calm_down(self) -> None:
        """One more event shows any loss; then whatever is asked for arrives."""
        self.change(0, "once")
        for _ in range(3):
            self.deliver(len(self.wire) or 1)
            if self.asked or self.feed.blind:
                self.wire += self.snapshots()
                self.asked = False
        holder = Holder(process("decode-0", self.incarnation), Medium.DEVICE)
        for chain in range(6):
            expected = 2 if chain in self.held else 0
            assert self.index.match(self.units(chain)).get(holder, 0) == expected
        assert len(self.index) == (2 * len(self.held) + 1 if self.held else 0)

    def snapshots(self) -> list[Snapshot]:
        """A part per chain; an empty one when there is nothing."""
        chains = sorted(self.held)
        if not chains:
            return [snapshot(self.number, [])]
        return [
            snapshot(self.number, self.units(chain), part, last=part == len(chains) - 1)
            for part, chain in enumerate(chains)
        ]

    @staticmethod
    def units(chain: int) -> list[UnitHash]:
        return units_of(prompt_of(1, label=chain))


TestLossyWire = LossyWire.TestCase
TestLossyWire.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
