"""What happened to blocks, told twice: to the router as events, to people as counts."""

from collections.abc import Sequence
from dataclasses import dataclass

from common.domain.ids import UnitHash
from common.runtime.membership import RouterLink
from services.kvstore.directory import BlockSpec
from services.kvstore.events import EventLog


@dataclass(slots=True)
class Counts:
    """Since the start. Blocks of an offer are stored, or one of the next six."""

    offers: int = 0
    offers_turned_away: int = 0
    """Too many waited, or the store was draining, or the worker was unknown."""
    blocks_stored: int = 0
    blocks_known: int = 0
    blocks_no_room: int = 0
    blocks_unfit: int = 0
    blocks_lapsed: int = 0
    blocks_unverified: int = 0
    blocks_skipped: int = 0
    """Behind one that got no slot or failed its check: a chain is useful up to its first gap."""
    bytes_stored: int = 0
    units_removed: int = 0
    lookups: int = 0
    hits: int = 0
    """Blocks asked for and leased."""
    misses: int = 0
    leased_blocks_expired: int = 0
    messages_unexpected: int = 0
    peers_dropped: int = 0


class Announcer:
    def __init__(self, router: RouterLink) -> None:
        self.counts = Counts()
        self.log = EventLog()
        self._router = router

    def stored(self, blocks: Sequence[BlockSpec]) -> None:
        self.counts.blocks_stored += len(blocks)
        self.counts.bytes_stored += sum(block.layout.block_bytes for block in blocks)
        for event in self.log.stored(blocks):
            self._router.send(event)

    def removed(self, units: Sequence[UnitHash]) -> None:
        self.counts.units_removed += len(units)
        for event in self.log.removed(units):
            self._router.send(event)
