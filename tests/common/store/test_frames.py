"""The frames back end against holders that die or dawdle."""

import threading
from pathlib import Path

import pytest

from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.store.arena import Arena
from common.store.frames import FrameReader
from common.store.publish import publish
from tests.support.arenas import (
    SLOT_BYTES,
    HolderProcess,
    block_bytes,
    filled_arena,
    targets_for,
)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:*", "ipc://{run_dir}/data"])
def test_a_holder_that_dies_between_reads_becomes_a_miss(tmp_path: Path, address: str) -> None:
    reader = FrameReader(patience_s=0.3)
    with HolderProcess(tmp_path, address.format(run_dir=tmp_path)) as holder:
        targets = targets_for(8, SLOT_BYTES)
        assert all(reader.read(holder.ref, holder.descriptors, SLOT_BYTES, targets))
        assert targets[7] == block_bytes(7, SLOT_BYTES)
        holder.kill()
        assert not any(reader.read(holder.ref, holder.descriptors, SLOT_BYTES, targets))
    reader.close()


class SlowArena(Arena):
    """Its first answer comes only when the test lets it."""

    let_go: threading.Event

    def view(self, slot: int) -> memoryview:
        assert self.let_go.wait(10)
        return super().view(slot)


def test_an_answer_that_comes_too_late_never_lands_in_memory_given_up(tmp_path: Path) -> None:
    arena = filled_arena()
    block = arena.describe(2, SLOT_BYTES)
    arena.__class__ = SlowArena
    arena.let_go = threading.Event()
    me = ProcessId(ProcessName("holder-0"), Incarnation(7))
    publication = publish(arena, me, "", tmp_path, "tcp://127.0.0.1:*")
    reader = FrameReader(patience_s=0.2)
    given_up, fresh = targets_for(2, SLOT_BYTES)
    assert reader.read(publication.ref, [block], SLOT_BYTES, [given_up]) == [False]
    arena.let_go.set()
    assert reader.read(publication.ref, [block], SLOT_BYTES, [fresh]) == [True]
    assert fresh == block_bytes(2, SLOT_BYTES)
    assert bytes(given_up) == bytes(SLOT_BYTES)
    reader.close()
    publication.close()
