"""A radix tree over chained unit hashes: who holds which prefix.

A unit's hash covers its parent, so one dictionary from hash to node is the whole tree and matching
is a walk along the query. A node lives while somebody holds it or it has children; one that nobody
holds is a hole and ends every match. Holders are small integers kept as bits of one int per node,
so that matching costs one look-up and one AND a unit, however many holders there are.

The tree is bounded: beyond `max_nodes` the leaf whose use lies furthest back is dropped, for all
its holders at once. "Use" is a store or a match that ended at the node or below it.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence

from common.domain.errors import ProtocolError
from common.domain.ids import UnitHash

_SLACK = 1_024


class Node:
    """One unit. `used` counts operations of the tree, not time."""

    __slots__ = ("children", "holders", "in_heap", "name", "parent", "used")

    def __init__(self, name: UnitHash, parent: "Node | None") -> None:
        self.name = name
        self.parent = parent
        """None: not known (yet), as for the root of a chain."""
        self.children = 0
        self.holders = 0
        self.used = 0
        self.in_heap = False


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class RadixTree:
    """Nodes by name, and per holder the nodes it holds."""

    def __init__(self, max_nodes: int) -> None:
        self._max_nodes = max_nodes
        self._nodes: dict[UnitHash, Node] = {}
        self._held: dict[int, dict[UnitHash, Node]] = {}
        self._clock = 0
        self._leaves: list[tuple[int, int, Node]] = []
        """Heap of (use, tie, node); at most one entry a node, corrected when it comes up."""
        self._pushes = 0

    def __len__(self) -> int:
        return len(self._nodes)

    def add_holder(self) -> int:
        """The lowest free number."""
        holder = next(i for i in range(len(self._held) + 1) if i not in self._held)
        self._held[holder] = {}
        return holder

    def drop_holder(self, holder: int) -> None:
        """Forget everything it holds, in time proportional to that, and free its number."""
        self.release_all(holder)
        del self._held[holder]

    def count(self, holder: int) -> int:
        return len(self._held[holder])

    def held(self, holder: int) -> set[UnitHash]:
        return set(self._held[holder])

    def hold(self, holder: int, parent: UnitHash, units: Iterable[UnitHash]) -> None:
        """`units` are consecutive and continue `parent`, which need not be known.

        Raises ProtocolError if they contradict a parent already known or close a circle, which no
        chain of hashes can; the units before that are held.
        """
        self._clock += 1
        bit = 1 << holder
        mine = self._held[holder]
        above = self._nodes.get(parent) or self._add(parent, None)
        try:
            for unit in units:
                node = self._under(above, unit)
                node.holders |= bit
                node.used = self._clock
                mine[unit] = node
                above = node
        finally:
            self._offer(above)
            self._prune(above)
            self._shrink()

    def release(self, holder: int, units: Iterable[UnitHash]) -> None:
        """What it does not hold is passed over."""
        mine = self._held[holder]
        for unit in units:
            node = mine.pop(unit, None)
            if node is not None:
                self._let_go(node, 1 << holder)

    def release_all(self, holder: int) -> None:
        nodes, self._held[holder] = self._held[holder], {}
        for node in nodes.values():
            self._let_go(node, 1 << holder)

    def match(self, units: Sequence[UnitHash]) -> dict[int, int]:
        """Per holder how many leading units it holds; holders of none are left out."""
        nodes = self._nodes
        lengths: dict[int, int] = {}
        alive = -1
        deepest: Node | None = None
        depth = 0
        for unit in units:
            node = nodes.get(unit)
            if node is None:
                break
            both = alive & node.holders
            if both != alive:
                if depth:
                    for holder in _bits(alive ^ both):
                        lengths[holder] = depth
                alive = both
                if not both:
                    break
            deepest = node
            depth += 1
        if deepest is not None:
            self._clock += 1
            deepest.used = self._clock
            for holder in _bits(alive):
                lengths[holder] = depth
        return lengths

    def _add(self, name: UnitHash, parent: Node | None) -> Node:
        node = Node(name, parent)
        if parent is not None:
            parent.children += 1
        self._nodes[name] = node
        return node

    def _under(self, parent: Node, name: UnitHash) -> Node:
        """The node of that name as a child of `parent`."""
        node = self._nodes.get(name)
        if node is None:
            return self._add(name, parent)
        if node.parent is None:
            self._attach(node, parent)
        elif node.parent is not parent:
            raise ProtocolError("a unit with two parents")
        return node

    def _attach(self, node: Node, parent: Node) -> None:
        above: Node | None = parent
        while above is not None:
            if above is node:
                raise ProtocolError("a unit among its own ancestors")
            above = above.parent
        node.parent = parent
        parent.children += 1

    def _let_go(self, node: Node, bits: int) -> None:
        node.holders &= ~bits
        self._prune(node)

    def _prune(self, node: Node | None) -> None:
        """Remove a node that nobody needs, and what only led to it."""
        while node is not None and not node.holders and not node.children:
            del self._nodes[node.name]
            parent = node.parent
            if parent is not None:
                parent.children -= 1
                parent.used = max(parent.used, node.used)
                self._offer(parent)
            node = parent

    def _offer(self, node: Node) -> None:
        if not node.children and node.holders and not node.in_heap:
            node.in_heap = True
            self._pushes += 1
            heapq.heappush(self._leaves, (node.used, self._pushes, node))

    def _shrink(self) -> None:
        while len(self._nodes) > self._max_nodes and self._leaves:
            used, _, node = heapq.heappop(self._leaves)
            node.in_heap = False
            if node.children or not node.holders:
                continue
            if used < node.used:
                self._offer(node)
                continue
            for holder in _bits(node.holders):
                del self._held[holder][node.name]
            self._let_go(node, node.holders)
        if len(self._leaves) > 2 * len(self._nodes) + _SLACK:
            self._rebuild_heap()

    def _rebuild_heap(self) -> None:
        """Nodes that were pruned while in the heap must not pile up there."""
        stale, self._leaves = self._leaves, []
        for _, _, node in stale:
            node.in_heap = False
            self._offer(node)
