"""How many slots an arena of a given size has."""

import pytest

from common.store.memory import MemoryArenas
from services.kvstore.shelf import Shelf, ShelfRules, make_shelf
from tests.support.store_world import STORE


async def shelf(arena_bytes: int, block_bytes: int) -> Shelf | None:
    arenas = MemoryArenas()
    return await make_shelf(
        ShelfRules("", arena_bytes),
        block_bytes,
        arenas.transfer(),
        lambda arena: arenas.publish(arena, STORE),
    )


@pytest.mark.parametrize(
    ("arena_bytes", "block_bytes", "slots", "slot_bytes"),
    [(40_960, 4096, 10, 4096), (40_960, 4097, 5, 8192), (9_000, 1, 2, 4096), (4096, 4096, 1, 4096)],
)
async def test_slots_are_whole_pages_and_never_more_than_the_arena_may_have(
    arena_bytes: int, block_bytes: int, slots: int, slot_bytes: int
) -> None:
    made = await shelf(arena_bytes, block_bytes)
    assert made is not None
    assert (made.arena.slots, made.arena.slot_bytes) == (slots, slot_bytes)
    assert made.directory.slots == slots
    assert made.publication.ref.slots == slots
    made.close()


@pytest.mark.parametrize("block_bytes", [0, -4096, 8193, 2**60])
async def test_a_block_of_which_none_fits_makes_no_shelf(block_bytes: int) -> None:
    assert await shelf(8192, block_bytes) is None
