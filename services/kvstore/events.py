"""What the router is told: numbered changes, and on demand everything.

Only committed blocks are told of. Numbers run without a gap in one life; a router that was away
sees the gap and asks for a snapshot.
"""

from collections.abc import Iterable, Sequence

from common.domain.ids import UnitHash
from common.domain.peer import Medium
from common.kv.held_units import HeldUnits
from common.wire.columns import pack_hashes
from common.wire.messages.events import BlocksRemoved, BlocksStored, Snapshot
from services.kvstore.directory import BlockSpec

UNITS_A_PART = 16_384


class EventLog:
    def __init__(self) -> None:
        self.number = 0
        self._held = HeldUnits()

    def stored(self, blocks: Sequence[BlockSpec]) -> list[BlocksStored]:
        """One event for each run of blocks of which each continues the one before."""
        events: list[BlocksStored] = []
        start = 0
        for i in range(1, len(blocks) + 1):
            if i == len(blocks) or blocks[i].parent != blocks[i - 1].name:
                self.number += 1
                units = [unit for block in blocks[start:i] for unit in block.units]
                self._held.add(units)
                parent = blocks[start].parent
                event = BlocksStored(self.number, Medium.HOST, parent, pack_hashes(units))
                events.append(event)
                start = i
        return events

    def removed(self, units: Sequence[UnitHash]) -> list[BlocksRemoved]:
        """Of whole blocks; what others still hold is not told of. In parts that fit a message, none
        for no units."""
        units = self._held.remove(units)
        events: list[BlocksRemoved] = []
        for start in range(0, len(units), UNITS_A_PART):
            self.number += 1
            part = pack_hashes(units[start : start + UNITS_A_PART])
            events.append(BlocksRemoved(self.number, Medium.HOST, part))
        return events

    def snapshot(self, blocks: Iterable[BlockSpec]) -> list[Snapshot]:
        """Everything held, as of the last event; one empty part for nothing."""
        parents: list[UnitHash] = []
        units: list[UnitHash] = []
        for block in blocks:
            parents += (block.parent, *block.units[:-1])
            units += block.units
        starts = range(0, max(1, len(units)), UNITS_A_PART)
        return [
            Snapshot(
                number=self.number,
                medium=Medium.HOST,
                parents=pack_hashes(parents[start : start + UNITS_A_PART]),
                units=pack_hashes(units[start : start + UNITS_A_PART]),
                part=part,
                last=start == starts[-1],
            )
            for part, start in enumerate(starts)
        ]
