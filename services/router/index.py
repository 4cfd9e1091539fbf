"""Where every cached block is: a copy of what workers and the kvstore say, never the truth.

A holder is one medium of one life of a process. A life is dropped whole, so a restarted worker is
never steered to for what its predecessor had. Feeds (feed.py) decide which events get here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from common.domain.ids import ProcessId, UnitHash
from common.domain.peer import Medium
from common.kv.radix import RadixTree


@dataclass(frozen=True, slots=True)
class Holder:
    process: ProcessId
    medium: Medium


Matches = Mapping[Holder, int]
"""Per holder how many leading units of a query it has; absent is none."""


class BlockIndex:
    def __init__(self, max_nodes: int) -> None:
        self.max_nodes = max_nodes
        self._tree = RadixTree(max_nodes)
        self._numbers: dict[Holder, int] = {}
        self._holders: dict[int, Holder] = {}

    def __len__(self) -> int:
        """Nodes, that is units known to anybody."""
        return len(self._tree)

    def store(
        self, process: ProcessId, medium: Medium, parent: UnitHash, units: Iterable[UnitHash]
    ) -> None:
        """Raises ProtocolError for units that cannot be a chain."""
        self._tree.hold(self._number(Holder(process, medium)), parent, units)

    def remove(self, process: ProcessId, medium: Medium, units: Iterable[UnitHash]) -> None:
        number = self._numbers.get(Holder(process, medium))
        if number is not None:
            self._tree.release(number, units)

    def replace(
        self, process: ProcessId, medium: Medium, pairs: Iterable[tuple[UnitHash, UnitHash]]
    ) -> None:
        """The holder has exactly these (parent, unit), in whatever order."""
        number = self._number(Holder(process, medium))
        self._tree.release_all(number)
        for parent, run in _runs(pairs):
            self._tree.hold(number, parent, run)

    def drop_process(self, process: ProcessId) -> None:
        for medium in Medium:
            number = self._numbers.pop(Holder(process, medium), None)
            if number is not None:
                del self._holders[number]
                self._tree.drop_holder(number)

    def match(self, units: Sequence[UnitHash]) -> Matches:
        holders = self._holders
        return {holders[number]: count for number, count in self._tree.match(units).items()}

    def count(self, process: ProcessId) -> int:
        """Units held by this process, its media added."""
        numbers = (self._numbers.get(Holder(process, medium)) for medium in Medium)
        return sum(self._tree.count(number) for number in numbers if number is not None)

    def _number(self, holder: Holder) -> int:
        number = self._numbers.get(holder)
        if number is None:
            number = self._tree.add_holder()
            self._numbers[holder] = number
            self._holders[number] = holder
        return number


def _runs(
    pairs: Iterable[tuple[UnitHash, UnitHash]],
) -> Iterator[tuple[UnitHash, list[UnitHash]]]:
    """Consecutive pairs that form a chain, as its parent and its units."""
    above: UnitHash | None = None
    run: list[UnitHash] = []
    for parent, unit in pairs:
        if above is not None and run[-1] == parent:
            run.append(unit)
            continue
        if above is not None:
            yield above, run
        above, run = parent, [unit]
    if above is not None:
        yield above, run
