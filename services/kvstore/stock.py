"""What lies here and who is reading it: the shelf, once it is made, and the leases on it.

Every change goes through the directory's table; a leased block stays until its last lease ends.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import structlog

from common.domain.block import ArenaRef, Descriptor, LayoutTag
from common.domain.ids import ProcessId, UnitHash
from common.store.publish import Publisher
from common.store.transfer import Transfer
from services.kvstore.announcer import Announcer
from services.kvstore.directory import BlockSpec, CopyState
from services.kvstore.leases import LeaseBook
from services.kvstore.shelf import Shelf, ShelfRules, make_shelf

log = structlog.get_logger()


class Stock:
    def __init__(
        self,
        rules: ShelfRules,
        transfer: Transfer,
        publish: Publisher,
        announcer: Announcer,
        clock: Callable[[], float],
    ) -> None:
        self.shelf: Shelf | None = None
        self.leases = LeaseBook()
        self._rules = rules
        self._transfer = transfer
        self._publish = publish
        self._announcer = announcer
        self._clock = clock

    async def shelf_for(self, block_bytes: int) -> Shelf | None:
        """Where such a block fits. The first caller decides what a slot is; one at a time."""
        if self.shelf is None:
            self.shelf = await make_shelf(self._rules, block_bytes, self._transfer, self._publish)
            if self.shelf is None:
                return None
            arena = self.shelf.arena
            log.info("arena_made", slots=arena.slots, slot_bytes=arena.slot_bytes)
        fits = 0 < block_bytes <= self.shelf.arena.slot_bytes
        return self.shelf if fits else None

    def arena_ref(self, me: ProcessId) -> ArenaRef:
        """Where the arena can be read; with no slots as long as it is not made."""
        if self.shelf is not None:
            return self.shelf.publication.ref
        return ArenaRef(me.name, me.incarnation, self._rules.host, "", "", 0, 0)

    def lend(
        self, reader: ProcessId, names: Sequence[UnitHash], layout: LayoutTag
    ) -> tuple[int, list[Descriptor]]:
        """The leading blocks that are here, under a new lease; (0, []) for none."""
        copies = self.shelf.directory.find(names, layout) if self.shelf else []
        counts = self._announcer.counts
        counts.lookups += 1
        counts.hits += len(copies)
        counts.misses += len(names) - len(copies)
        if self.shelf is None or not copies:
            return 0, []
        now = self._clock()
        found = tuple(copy.spec.name for copy in copies)
        self.shelf.directory.lease(found, now)
        descriptors = [copy.descriptor for copy in copies if copy.descriptor is not None]
        return self.leases.grant(reader, found, now), descriptors

    def give_back(self, lease: int, reader: ProcessId) -> None:
        self._unlease(self.leases.end(lease, reader))

    def forget_earlier_lives(self, reader: ProcessId) -> None:
        self._unlease(self.leases.replace_owner(reader))

    def expire(self) -> None:
        overdue = self.leases.expire(self._clock())
        self._announcer.counts.leased_blocks_expired += len(overdue)
        self._unlease(overdue)

    def _unlease(self, names: Iterable[UnitHash]) -> None:
        if self.shelf is not None:
            self.shelf.directory.unlease(names, self._clock())

    def flush(self) -> int:
        """Drop all blocks that nobody reads or waits for. Returns how many."""
        if self.shelf is None:
            return 0
        before = self.slots()["free"]
        self._announcer.removed(self.shelf.directory.flush(self._clock()))
        return self.slots()["free"] - before

    def visible(self) -> Iterator[BlockSpec]:
        if self.shelf is not None:
            yield from (copy.spec for copy in self.shelf.directory.visible())

    def slots(self) -> dict[str, int]:
        """By state; "total" is their sum, 0 before the arena is made."""
        if self.shelf is None:
            return {"total": 0, "free": 0, "filling": 0, "held": 0, "leased": 0}
        directory = self.shelf.directory
        filling = directory.count(CopyState.RESERVED, CopyState.FILLING)
        held, leased = directory.count(CopyState.HELD), directory.count(CopyState.LEASED)
        free = directory.slots - filling - held - leased
        return {
            "total": directory.slots,
            "free": free,
            "filling": filling,
            "held": held,
            "leased": leased,
        }

    def close(self) -> None:
        if self.shelf is not None:
            self.shelf.close()
