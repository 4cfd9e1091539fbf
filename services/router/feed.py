"""The numbered events of one life of one process, applied to the index exactly once and in order.

A feed starts blind: the router may be younger than the process. While it waits for a snapshot it
keeps what arrives; a complete snapshot replaces what the index has, then the kept events above its
number follow. A gap makes the feed blind again, with its entries left as they are: they are hints,
and mostly right.
"""

from collections import deque
from dataclasses import replace
from itertools import chain

from common.domain.errors import ProtocolError
from common.domain.ids import ProcessId, UnitHash
from common.domain.peer import Medium
from common.wire.columns import HASH_BYTES, unpack_hashes
from common.wire.messages.events import BlocksRemoved, BlocksStored, Snapshot
from services.router.index import BlockIndex

_MAX_EARLY = 4_096
"""Kept events; the oldest is lost first, which shows as a gap after the snapshot."""


class EventFeed:
    """Methods that say True want the process to be asked for a snapshot."""

    def __init__(self, index: BlockIndex, process: ProcessId) -> None:
        self._index = index
        self._process = process
        self._number: int | None = None
        """Of the last event applied; None while blind."""
        self._early: deque[BlocksStored | BlocksRemoved] = deque(maxlen=_MAX_EARLY)
        self._parts: list[Snapshot] = []
        self.gaps = 0

    @property
    def blind(self) -> bool:
        return self._number is None

    def event(self, event: BlocksStored | BlocksRemoved) -> bool:
        """Raises ProtocolError if its columns make no sense."""
        if self._number is None:
            self._early.append(event)
            return False
        if event.number <= self._number:
            return False
        if event.number > self._number + 1:
            self.gaps += 1
            self._number = None
            self._early.append(event)
            return True
        self._apply(event)
        self._number = event.number
        return False

    def snapshot(self, part: Snapshot) -> bool:
        """Raises ProtocolError if its columns make no sense."""
        if not self._collect(part):
            return self.blind
        if not part.last:
            return False
        parts, self._parts = self._parts, []
        if self._number is not None and part.number < self._number:
            return False
        self._replace(parts)
        self._number = part.number
        early = list(self._early)
        self._early.clear()
        # A gap among the kept ones blinds the feed again; those behind it are then kept once more.
        return any([self.event(event) for event in early])

    def _collect(self, part: Snapshot) -> bool:
        """False: a part is missing, and the whole has to be sent again."""
        if part.part == 0:
            self._parts = []
        elif not self._follows(part):
            self._parts = []
            return False
        known = sum(len(earlier.units) for earlier in self._parts) // HASH_BYTES
        if known > self._index.max_nodes:
            # The index would drop them anyway.
            part = replace(part, parents=b"", units=b"")
        self._parts.append(part)
        return True

    def _follows(self, part: Snapshot) -> bool:
        if not self._parts:
            return False
        previous = self._parts[-1]
        return (part.part, part.number) == (previous.part + 1, previous.number)

    def _replace(self, parts: list[Snapshot]) -> None:
        """Media that the snapshot does not speak of keep what they have."""
        by_medium: dict[Medium, list[list[tuple[UnitHash, UnitHash]]]] = {}
        for part in parts:
            parents, units = unpack_hashes(part.parents), unpack_hashes(part.units)
            if len(parents) != len(units):
                raise ProtocolError("a snapshot with columns of two lengths")
            by_medium.setdefault(part.medium, []).append(list(zip(parents, units, strict=True)))
        for medium, pairs in by_medium.items():
            self._index.replace(self._process, medium, chain.from_iterable(pairs))

    def _apply(self, event: BlocksStored | BlocksRemoved) -> None:
        units = unpack_hashes(event.units)
        match event:
            case BlocksStored(medium=medium, parent=parent):
                if len(parent) != HASH_BYTES:
                    raise ProtocolError("a parent that is no hash")
                self._index.store(self._process, medium, UnitHash(parent), units)
            case BlocksRemoved(medium=medium):
                self._index.remove(self._process, medium, units)
