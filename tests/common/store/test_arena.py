"""The owner's arena and a peer's view of it, in one process."""

import os

import pytest

from common.domain.errors import ProtocolError
from common.store.arena import GENERATION_LIMIT, Arena, ArenaView, arena_bytes, checksum
from tests.support.arenas import SLOT_BYTES, SLOTS, block_bytes, filled_arena


def test_slots_are_apart_and_keep_what_is_written() -> None:
    arena = filled_arena()
    assert len(arena.memory) == SLOTS * SLOT_BYTES
    for slot in range(SLOTS):
        assert arena.view(slot) == block_bytes(slot, SLOT_BYTES)
        start = slot * SLOT_BYTES
        assert arena.memory[start : start + SLOT_BYTES] == arena.view(slot)


def test_memory_and_views_are_the_same_bytes() -> None:
    arena = Arena.create("test", 2, 4096)
    arena.memory[4096:4100] = b"kvkv"
    assert arena.view(1)[:4] == b"kvkv"


def test_bump_counts_each_slot_alone_and_leaves_its_bytes() -> None:
    arena = Arena.create("test", 3, 4096)
    arena.view(1)[:2] = b"ok"
    assert [arena.bump(1), arena.bump(1)] == [1, 2]
    assert [arena.generation(slot) for slot in range(3)] == [0, 2, 0]
    assert arena.view(1)[:2] == b"ok"


def test_a_generation_stays_within_its_column() -> None:
    arena = Arena.create("test", 1, 4096)
    arena._generations[0] = GENERATION_LIMIT - 1
    assert arena.bump(0) == 0


def test_describe_covers_only_the_length_asked_for() -> None:
    arena = filled_arena()
    block = arena.describe(2, 100)
    arena.view(2)[100:] = bytes(SLOT_BYTES - 100)
    assert block == arena.describe(2, 100)
    assert block.crc == checksum(block_bytes(2, SLOT_BYTES)[:100])
    arena.view(2)[99] ^= 1
    assert block != arena.describe(2, 100)


@pytest.mark.parametrize("slot", [-1, SLOTS])
def test_a_slot_that_does_not_exist_is_an_error(slot: int) -> None:
    arena = filled_arena()
    for touch in (arena.view, arena.generation, arena.bump):
        with pytest.raises(IndexError):
            touch(slot)


@pytest.mark.parametrize(("slots", "slot_bytes"), [(0, 4096), (1, 4095), (1, 0), (4, 6000)])
def test_geometry_that_pages_cannot_hold_is_refused(slots: int, slot_bytes: int) -> None:
    with pytest.raises(ValueError, match="cannot be an arena"):
        Arena.create("test", slots, slot_bytes)


def test_a_view_follows_the_owner_but_cannot_write() -> None:
    arena = filled_arena()
    fd = arena.reader_fd()
    view = ArenaView.open(fd, SLOTS, SLOT_BYTES)
    os.close(fd)
    arena.bump(3)
    arena.view(3)[:3] = b"new"
    assert view.generation(3) == 2
    assert view.view(3)[:3] == b"new"
    with pytest.raises(TypeError):
        view.view(3)[:3] = b"bad"


def test_the_owner_closes_while_views_of_both_sides_live() -> None:
    arena = filled_arena()
    fd = arena.reader_fd()
    view = ArenaView.open(fd, SLOTS, SLOT_BYTES)
    os.close(fd)
    held = arena.view(1)
    arena.close()
    arena.close()
    assert held == block_bytes(1, SLOT_BYTES)
    assert view.view(2) == block_bytes(2, SLOT_BYTES)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(arena.fd)


def test_memory_that_could_shrink_is_no_arena() -> None:
    fd = os.memfd_create("loose", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, arena_bytes(2, 4096))
    with pytest.raises(ProtocolError, match="sealed"):
        ArenaView.open(fd, 2, 4096)
    os.close(fd)


def test_a_file_is_no_arena(tmp_path: object) -> None:
    with open(f"{tmp_path}/file", "wb+") as file:
        file.truncate(arena_bytes(2, 4096))
        with pytest.raises(ProtocolError, match="memfd"):
            ArenaView.open(file.fileno(), 2, 4096)


def test_a_geometry_that_does_not_fit_is_refused() -> None:
    arena = filled_arena()
    fd = arena.reader_fd()
    with pytest.raises(ProtocolError, match="are not"):
        ArenaView.open(fd, SLOTS + 1, SLOT_BYTES)
    os.close(fd)
