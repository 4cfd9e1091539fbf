"""The arena of this host's store with its directory.

Made when the slot size is known: from the settings, or from the first layout that is offered. One
slot holds one block of any layout that is not larger; a layout that is larger is not stored.
"""

from dataclasses import dataclass

from common.store.arena import PAGE_BYTES, Arena
from common.store.publish import Publication, Publisher
from common.store.transfer import Transfer
from services.kvstore.directory import Directory
from services.kvstore.eviction import EVICTIONS


@dataclass(frozen=True, slots=True)
class ShelfRules:
    host: str
    arena_bytes: int
    slot_bytes: int = 0
    """0: from the first layout."""
    eviction: str = "lru"


@dataclass(frozen=True, slots=True)
class Shelf:
    arena: Arena
    directory: Directory
    publication: Publication

    def close(self) -> None:
        self.publication.close()
        self.arena.close()


async def make_shelf(
    rules: ShelfRules, block_bytes: int, transfer: Transfer, publish: Publisher
) -> Shelf | None:
    """Slots for `block_bytes`; None when not one would fit into the arena."""
    slot_bytes = -(-block_bytes // PAGE_BYTES) * PAGE_BYTES
    slots = rules.arena_bytes // slot_bytes if slot_bytes > 0 else 0
    if slots < 1:
        return None
    arena = await transfer.create("kvstore", slots, slot_bytes)
    return Shelf(arena, Directory(slots, EVICTIONS[rules.eviction]()), publish(arena))
