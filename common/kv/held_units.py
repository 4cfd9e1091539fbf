"""Which units a holder of blocks has, so that it never says one is gone that it still holds.

Two blocks of several units may part in their middle: the units before that lie in both, and stay
as long as one of the two does.
"""

from collections import Counter
from collections.abc import Iterable

from common.domain.ids import UnitHash


class HeldUnits:
    def __init__(self) -> None:
        self._blocks: Counter[UnitHash] = Counter()
        """In how many blocks a unit lies."""

    def add(self, units: Iterable[UnitHash]) -> None:
        """Of a block that came."""
        self._blocks.update(units)

    def remove(self, units: Iterable[UnitHash]) -> tuple[UnitHash, ...]:
        """Of a block that goes. Returns those that are in no other, in order."""
        gone: list[UnitHash] = []
        for unit in units:
            self._blocks[unit] -= 1
            if not self._blocks[unit]:
                del self._blocks[unit]
                gone.append(unit)
        return tuple(gone)
