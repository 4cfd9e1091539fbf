"""The mapped back end's own matters: races within one copy, and which mappings it keeps."""

from dataclasses import replace
from pathlib import Path

import pytest

from common.store import shm
from common.store.arena import Arena
from common.store.shm import ShmReader, copy_block
from tests.support.arenas import (
    SLOT_BYTES,
    HolderProcess,
    block_bytes,
    filled_arena,
    targets_for,
)


class ReusedDuringTheCopy(Arena):
    """Its owner reuses a slot for the same bytes after the reader has looked at the generation."""

    def view(self, slot: int) -> memoryview:
        self.bump(slot)
        return super().view(slot)


def test_a_slot_reused_during_the_copy_is_a_miss_whatever_its_crc() -> None:
    arena = filled_arena()
    block = arena.describe(1, SLOT_BYTES)
    target = targets_for(1, SLOT_BYTES)[0]
    assert copy_block(arena, block, SLOT_BYTES, target)
    arena.__class__ = ReusedDuringTheCopy
    assert not copy_block(arena, block, SLOT_BYTES, target)
    assert target == block_bytes(1, SLOT_BYTES)


def test_a_reader_finishes_with_the_memory_of_a_dead_holder(tmp_path: Path) -> None:
    reader = ShmReader()
    with HolderProcess(tmp_path) as holder:
        targets = targets_for(8, SLOT_BYTES)
        assert reader.read(holder.ref, holder.descriptors[:1], SLOT_BYTES, targets[:1]) == [True]
        holder.kill()
        assert all(reader.read(holder.ref, holder.descriptors, SLOT_BYTES, targets))
        assert targets[7] == block_bytes(7, SLOT_BYTES)
        reader.close()
        assert not any(reader.read(holder.ref, holder.descriptors, SLOT_BYTES, targets))


def test_a_stale_reference_does_not_cost_the_mapping_of_the_living(tmp_path: Path) -> None:
    reader = ShmReader()
    with HolderProcess(tmp_path) as holder:
        targets = targets_for(1, SLOT_BYTES)
        assert reader.read(holder.ref, holder.descriptors[:1], SLOT_BYTES, targets) == [True]
        stale = replace(holder.ref, epoch=1)
        assert reader.read(stale, holder.descriptors[:1], SLOT_BYTES, targets) == [False]
        holder.kill()
        assert reader.read(holder.ref, holder.descriptors[:1], SLOT_BYTES, targets) == [True]
    reader.close()


def test_an_idle_mapping_is_dropped_so_that_a_dead_holders_memory_is_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = ShmReader()
    with HolderProcess(tmp_path) as holder:
        targets = targets_for(1, SLOT_BYTES)
        assert reader.read(holder.ref, holder.descriptors[:1], SLOT_BYTES, targets) == [True]
        holder.kill()
        monkeypatch.setattr(shm, "IDLE_S", -1.0)
        assert reader.read(holder.ref, holder.descriptors[:1], SLOT_BYTES, targets) == [False]
