"""Which blocks lie in which slots, and what may happen to each copy.

    RESERVED --FillStarted--> FILLING --Verified--> HELD <--LeaseTaken/LeaseEnded--> LEASED
        |                        |                    |
        +---------- FillFailed --+------ Evicted -----+--> FREED

A copy is visible only in HELD and LEASED, so nobody finds bytes that were not checked. Only a HELD
copy that no other copy continues may be evicted: LEASED has no row for it, so a leased slot cannot
be reused, and a chain is cut from its end, never in the middle. Every slot is free or has one copy.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from common.domain.block import Descriptor, LayoutTag
from common.domain.errors import InvalidTransition
from common.domain.ids import UnitHash
from services.kvstore.eviction import Eviction

STORY_LENGTH = 32


class CopyState(StrEnum):
    RESERVED = "reserved"
    FILLING = "filling"
    HELD = "held"
    LEASED = "leased"
    FREED = "freed"


VISIBLE = frozenset({CopyState.HELD, CopyState.LEASED})


@dataclass(frozen=True, slots=True)
class FillStarted:
    """The slot's generation is bumped; bytes may change from here on."""


@dataclass(frozen=True, slots=True)
class Verified:
    descriptor: Descriptor


@dataclass(frozen=True, slots=True)
class FillFailed:
    pass


@dataclass(frozen=True, slots=True)
class LeaseTaken:
    pass


@dataclass(frozen=True, slots=True)
class LeaseEnded:
    pass


@dataclass(frozen=True, slots=True)
class Evicted:
    pass


CopyEvent = FillStarted | Verified | FillFailed | LeaseTaken | LeaseEnded | Evicted
_S = CopyState

TRANSITIONS: dict[tuple[CopyState, type[CopyEvent]], frozenset[CopyState]] = {
    (_S.RESERVED, FillStarted): frozenset({_S.FILLING}),
    (_S.RESERVED, FillFailed): frozenset({_S.FREED}),
    (_S.FILLING, Verified): frozenset({_S.HELD}),
    (_S.FILLING, FillFailed): frozenset({_S.FREED}),
    (_S.HELD, LeaseTaken): frozenset({_S.LEASED}),
    (_S.HELD, Evicted): frozenset({_S.FREED}),
    (_S.LEASED, LeaseTaken): frozenset({_S.LEASED}),
    (_S.LEASED, LeaseEnded): frozenset({_S.LEASED, _S.HELD}),
}
"""(state, event) -> the states it may lead to. No event is ignorable here."""


@dataclass(frozen=True, slots=True)
class BlockSpec:
    """What a block is, wherever it lies."""

    name: UnitHash
    parent: UnitHash
    """The unit before the block's first one: the name of the block before, if that is held."""
    units: tuple[UnitHash, ...]
    layout: LayoutTag


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a story."""

    at: float
    before: CopyState
    event: str
    after: CopyState


@dataclass(slots=True, eq=False)
class BlockCopy:
    """One block in one slot. `descriptor` is set while visible; `leases` counts while LEASED."""

    spec: BlockSpec
    slot: int
    used_at: float
    state: CopyState = CopyState.RESERVED
    descriptor: Descriptor | None = None
    leases: int = 0
    story: deque[Step] = field(default_factory=lambda: deque(maxlen=STORY_LENGTH))


def advance(copy: BlockCopy, event: CopyEvent, now: float) -> None:
    """Raises InvalidTransition with the copy's story on an event that has no row."""
    before = copy.state
    allowed = TRANSITIONS.get((before, type(event)))
    if allowed is None:
        raise InvalidTransition(
            f"block in slot {copy.slot}: {type(event).__name__} while {before}; "
            f"story {list(copy.story)}"
        )
    match event:
        case Verified():
            copy.descriptor = event.descriptor
        case LeaseTaken():
            copy.leases += 1
        case LeaseEnded():
            copy.leases -= 1
        case FillStarted() | FillFailed() | Evicted():
            pass
    if len(allowed) == 1:
        (copy.state,) = allowed
    else:
        copy.state = CopyState.LEASED if copy.leases else CopyState.HELD
    copy.story.append(Step(now, before, type(event).__name__, copy.state))


@dataclass(frozen=True, slots=True)
class Reservation:
    slot: int
    removed: tuple[UnitHash, ...]
    """Units of the block that had to go for it."""


class Directory:
    """All copies of one arena."""

    def __init__(self, slots: int, eviction: Eviction) -> None:
        self.slots = slots
        self._eviction = eviction
        self._free = list(range(slots - 1, -1, -1))
        self._copies: dict[UnitHash, BlockCopy] = {}
        self._children: dict[UnitHash, int] = {}
        """Copies in any state by the name that they continue."""

    def __contains__(self, name: UnitHash) -> bool:
        """Held or on its way."""
        return name in self._copies

    def count(self, *states: CopyState) -> int:
        return sum(copy.state in states for copy in self._copies.values())

    def visible(self) -> Iterator[BlockCopy]:
        """In no order; a parent may come after its child."""
        return (copy for copy in self._copies.values() if copy.state in VISIBLE)

    def find(self, names: Sequence[UnitHash], layout: LayoutTag) -> list[BlockCopy]:
        """The longest run of visible copies from the first name on, all in this layout."""
        run: list[BlockCopy] = []
        for name in names:
            copy = self._copies.get(name)
            if copy is None or copy.state not in VISIBLE or copy.spec.layout != layout:
                break
            run.append(copy)
        return run

    def reserve(self, spec: BlockSpec, now: float) -> Reservation | None:
        """A slot for a block that is not here; None when nothing may be evicted for it."""
        # First, so that a block is never the victim of the one that continues it.
        self._add_child(spec.parent)
        removed: tuple[UnitHash, ...] = ()
        if not self._free:
            victim = self._eviction.victim()
            if victim is None:
                self._drop_child(spec.parent)
                return None
            removed = self._evict(victim, now)
        slot = self._free.pop()
        self._copies[spec.name] = BlockCopy(spec, slot, now)
        return Reservation(slot, removed)

    def start_fill(self, name: UnitHash, now: float) -> None:
        advance(self._copies[name], FillStarted(), now)

    def commit(self, name: UnitHash, descriptor: Descriptor, now: float) -> None:
        advance(self._copies[name], Verified(descriptor), now)
        self._rate(name)

    def abandon(self, name: UnitHash, now: float) -> None:
        """The fill came to nothing; the slot is free."""
        copy = self._copies[name]
        advance(copy, FillFailed(), now)
        self._forget(copy)

    def touch(self, name: UnitHash, now: float) -> None:
        """The block is in use somewhere: it goes later."""
        self._copies[name].used_at = now
        self._rate(name)

    def lease(self, names: Iterable[UnitHash], now: float) -> None:
        for name in names:
            advance(self._copies[name], LeaseTaken(), now)
            self.touch(name, now)

    def unlease(self, names: Iterable[UnitHash], now: float) -> None:
        for name in names:
            advance(self._copies[name], LeaseEnded(), now)
            self._rate(name)

    def flush(self, now: float) -> list[UnitHash]:
        """Evict all that may go. Returns the units removed."""
        removed: list[UnitHash] = []
        while (victim := self._eviction.victim()) is not None:
            removed += self._evict(victim, now)
        return removed

    def _evict(self, name: UnitHash, now: float) -> tuple[UnitHash, ...]:
        copy = self._copies[name]
        advance(copy, Evicted(), now)
        self._forget(copy)
        return copy.spec.units

    def _forget(self, copy: BlockCopy) -> None:
        del self._copies[copy.spec.name]
        self._eviction.leave(copy.spec.name)
        self._free.append(copy.slot)
        self._drop_child(copy.spec.parent)

    def _add_child(self, parent: UnitHash) -> None:
        self._children[parent] = self._children.get(parent, 0) + 1
        self._rate(parent)

    def _drop_child(self, parent: UnitHash) -> None:
        self._children[parent] -= 1
        if not self._children[parent]:
            del self._children[parent]
        self._rate(parent)

    def _may_go(self, copy: BlockCopy) -> bool:
        return copy.state is CopyState.HELD and copy.spec.name not in self._children

    def _rate(self, name: UnitHash) -> None:
        """Tell the eviction rule where this block stands now."""
        copy = self._copies.get(name)
        if copy is None:
            return
        if self._may_go(copy):
            self._eviction.enter(name, copy.used_at)
        else:
            self._eviction.leave(name)

    def check_invariants(self) -> None:
        """Raises AssertionError. For tests: it looks at everything."""
        used = [copy.slot for copy in self._copies.values()]
        assert sorted(used + self._free) == list(range(self.slots)), "a slot is lost or doubled"
        children: dict[UnitHash, int] = {}
        for name, copy in self._copies.items():
            assert name == copy.spec.name
            assert copy.state is not CopyState.FREED
            assert (copy.leases > 0) == (copy.state is CopyState.LEASED), "leases and state differ"
            assert (copy.descriptor is not None) == (copy.state in VISIBLE), "unchecked but visible"
            children[copy.spec.parent] = children.get(copy.spec.parent, 0) + 1
        assert children == self._children, "the chains are miscounted"
        may_go = {name for name, copy in self._copies.items() if self._may_go(copy)}
        assert may_go == set(self._eviction.candidates), "the eviction rule sees other blocks"
