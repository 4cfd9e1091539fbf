"""The worker's own blocks: free, in use, or kept because their prefix may come again.

A radix tree whose edges are whole blocks: a block's name covers its parent's, so the tree is a
dictionary of names with parent pointers. A block nobody uses stays until room is needed; then the
leaf unused for longest goes first, so that what remains is always a set of whole prefixes. Every
change is recorded as an event for the router. Pure: no bytes are touched here.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.domain.ids import UnitHash
from common.kv.held_units import HeldUnits
from common.kv.pool import SlotPool


@dataclass(frozen=True, slots=True)
class CacheStored:
    """`units` of one newly named block, continuing `parent`."""

    parent: UnitHash
    units: tuple[UnitHash, ...]


@dataclass(frozen=True, slots=True)
class CacheRemoved:
    units: tuple[UnitHash, ...]
    """Those of one block that no other named block has."""


CacheEvent = CacheStored | CacheRemoved
_SLACK = 64


@dataclass(slots=True)
class _Node:
    slot: int
    parent: UnitHash
    units: tuple[UnitHash, ...]
    used_at: int = 0


class PrefixCache:
    """Owner of every slot of one pool."""

    def __init__(self, slots: int, before_reuse: Callable[[int], object]) -> None:
        self._pool = SlotPool(slots, before_reuse)
        self._nodes: dict[UnitHash, _Node] = {}
        self._name_of: dict[int, UnitHash] = {}
        self._children: Counter[UnitHash] = Counter()
        """By parent name, whether or not the parent is here: a private copy may have been it."""
        self._idle: list[tuple[int, UnitHash]] = []
        """Heap of (used_at, name) of leaves without owner; stale entries are skipped."""
        self._idle_count = 0
        """Named slots without owner, leaves or not."""
        self._clock = 0
        self._units = HeldUnits()
        self.events: list[CacheEvent] = []

    @property
    def slots(self) -> int:
        return self._pool.slots

    @property
    def available(self) -> int:
        """Slots that can be allocated now, counting cached ones nobody uses."""
        return self._pool.free + self._idle_count

    @property
    def cached(self) -> int:
        return self._idle_count

    @property
    def used(self) -> int:
        return self._pool.slots - self.available

    def match(self, names: Sequence[UnitHash]) -> list[int]:
        """Slots of the longest known run from the first name on; each gains a reference."""
        slots: list[int] = []
        for name in names:
            node = self._nodes.get(name)
            if node is None:
                break
            self.retain(node.slot)
            slots.append(node.slot)
        return slots

    def cost(self, names: Sequence[UnitHash], blocks: int) -> int:
        """By how many `available` falls when `blocks` blocks are taken of which those that match
        `names` are found here: a found one costs nothing only while somebody else has it, too."""
        for name in names:
            node = self._nodes.get(name)
            if node is None:
                break
            if self._pool.refs(node.slot):
                blocks -= 1
        return blocks

    def allocate(self, count: int) -> list[int] | None:
        """`count` fresh slots with one reference each, or None if there are not so many."""
        if count > self.available:
            return None
        while self._pool.free < count:
            self._evict_one()
        return [self._pool.take() for _ in range(count)]

    def allocate_run(self, count: int) -> list[int] | None:
        """As `allocate`, but adjacent slots in order; None if no such run can be made."""
        while (run := self._pool.take_run(count)) is None:
            if not self._idle_count:
                return None
            self._evict_one()
        return run

    def retain(self, slot: int) -> None:
        if self._pool.refs(slot) == 0:
            self._idle_count -= 1
        self._pool.retain(slot)

    def release(self, slots: Sequence[int]) -> None:
        """Drop one reference of each. Named slots stay cached, others become free."""
        self._clock += 1
        for slot in slots:
            if self._pool.drop(slot):
                continue
            name = self._name_of.get(slot)
            if name is None:
                self._pool.put_back(slot)
                continue
            self._idle_count += 1
            node = self._nodes[name]
            node.used_at = self._clock
            if not self._children[name]:
                heapq.heappush(self._idle, (node.used_at, name))
        if len(self._idle) > 2 * self._pool.slots + _SLACK:
            self._drop_stale_entries()

    def _drop_stale_entries(self) -> None:
        """A prefix that is used again and again leaves one with every use."""
        self._idle = [
            (node.used_at, name)
            for name, node in self._nodes.items()
            if not self._pool.refs(node.slot) and not self._children[name]
        ]
        heapq.heapify(self._idle)

    def name(self, slot: int, parent: UnitHash, units: tuple[UnitHash, ...]) -> None:
        """Publish a filled, verified block. If its name is already known the older copy stays and
        this slot remains private to its owners."""
        name = units[-1]
        if name in self._nodes or slot in self._name_of:
            return
        self._clock += 1
        self._nodes[name] = _Node(slot, parent, units, used_at=self._clock)
        self._name_of[slot] = name
        self._children[parent] += 1
        self._units.add(units)
        self.events.append(CacheStored(parent, units))

    def reset(self) -> int:
        """Forget every cached block nobody uses. Returns how many."""
        before = self._idle_count
        while self._idle_count:
            self._evict_one()
        return before

    def contents(self) -> list[CacheStored]:
        """Everything named, parents before children: what a snapshot says."""
        return [CacheStored(node.parent, node.units) for node in self._nodes.values()]

    def _evict_one(self) -> None:
        """Free the leaf unused for longest. Needs an idle block."""
        while self._idle:
            used_at, name = heapq.heappop(self._idle)
            node = self._nodes.get(name)
            if node is None or node.used_at != used_at or self._children[name]:
                continue
            if self._pool.refs(node.slot):
                continue
            self._forget(name, node)
            return
        # Every idle block has a child in use, whose owner computed its own copy of the parent.
        idle = [name for name, node in self._nodes.items() if not self._pool.refs(node.slot)]
        oldest = min(idle, key=lambda name: self._nodes[name].used_at)
        self._forget(oldest, self._nodes[oldest])

    def _forget(self, name: UnitHash, node: _Node) -> None:
        del self._nodes[name]
        del self._name_of[node.slot]
        self._pool.put_back(node.slot)
        self._idle_count -= 1
        self.events.append(CacheRemoved(self._units.remove(node.units)))
        self._children[node.parent] -= 1
        if self._children[node.parent]:
            return
        del self._children[node.parent]
        above = self._nodes.get(node.parent)
        if above is not None and self._pool.refs(above.slot) == 0:
            heapq.heappush(self._idle, (above.used_at, node.parent))

    def check_invariants(self) -> None:
        """Raises AssertionError. Meant for tests and the simulator."""
        idle = sum(self._pool.refs(slot) == 0 for slot in self._name_of)
        assert idle == self._idle_count
        held = sum(self._pool.refs(slot) > 0 for slot in range(self.slots))
        assert held + idle + self._pool.free == self.slots
        children = Counter(node.parent for node in self._nodes.values())
        assert children == +self._children
