"""Every back end reads alike: the described bytes or a miss, and never other bytes believed."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from common.domain.block import ArenaRef, Descriptor
from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.store.arena import Arena
from common.store.frames import FrameReader
from common.store.memory import MemoryArenas
from common.store.publish import Publication, publish
from common.store.shm import ShmReader
from common.store.transfer import READERS, Reader
from tests.support.arenas import SLOT_BYTES, SLOTS, block_bytes, filled_arena, refill, targets_for

ME = ProcessId(ProcessName("holder-0"), Incarnation(7))
PATIENCE_S = 0.3
Publish = Callable[[Arena, ProcessId], Publication]


@dataclass
class Backend:
    reader: Reader
    publish: Publish


def backend(name: str, run_dir: Path) -> Backend:
    match name:
        case "memory":
            arenas = MemoryArenas()
            return Backend(arenas, arenas.publish)
        case "shm":
            return Backend(ShmReader(), lambda arena, me: publish(arena, me, "here", run_dir, ""))
        case "frames-ipc":
            address = f"ipc://{run_dir}/data"
        case _:
            address = "tcp://127.0.0.1:*"
    reader = FrameReader(PATIENCE_S)
    return Backend(reader, lambda arena, me: publish(arena, me, "there", run_dir, address))


@pytest.fixture(params=["shm", "frames-ipc", "frames-tcp", "memory"])
def end(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    made = backend(request.param, tmp_path)
    yield made
    made.reader.close()


@dataclass
class Holder:
    arena: Arena
    ref: ArenaRef
    blocks: list[Descriptor]
    close: Callable[[], None]


@pytest.fixture
def holder(end: Backend) -> Iterator[Holder]:
    arena = filled_arena()
    publication = end.publish(arena, ME)
    blocks = [arena.describe(slot, SLOT_BYTES) for slot in range(SLOTS)]
    yield Holder(arena, publication.ref, blocks, publication.close)
    publication.close()
    arena.close()


def test_every_listed_back_end_is_tested_here() -> None:
    assert set(READERS) == {"shm", "frames"}


def test_blocks_arrive_in_their_targets_in_any_order(end: Backend, holder: Holder) -> None:
    wanted = [6, 0, 3, 3, 7]
    targets = targets_for(len(wanted), SLOT_BYTES)
    blocks = [holder.blocks[slot] for slot in wanted]
    assert end.reader.read(holder.ref, blocks, SLOT_BYTES, targets) == [True] * 5
    assert [bytes(target) for target in targets] == [block_bytes(s, SLOT_BYTES) for s in wanted]


def test_only_the_length_asked_for_is_written(end: Backend, holder: Holder) -> None:
    block = holder.arena.describe(4, 1000)
    target = memoryview(bytearray(b"x" * 2000))
    assert end.reader.read(holder.ref, [block], 1000, [target]) == [True]
    assert target[:1000] == block_bytes(4, SLOT_BYTES)[:1000]
    assert bytes(target[1000:]) == b"x" * 1000


def test_a_reused_slot_is_a_miss_and_its_neighbours_are_not(end: Backend, holder: Holder) -> None:
    refill(holder.arena, 1, seed=50)
    targets = targets_for(3, SLOT_BYTES)
    assert end.reader.read(holder.ref, holder.blocks[:3], SLOT_BYTES, targets) == [
        True,
        False,
        True,
    ]
    assert targets[2] == block_bytes(2, SLOT_BYTES)


def test_a_bumped_slot_is_a_miss_even_with_its_old_bytes(end: Backend, holder: Holder) -> None:
    holder.arena.bump(1)
    target = targets_for(1, SLOT_BYTES)
    assert end.reader.read(holder.ref, [holder.blocks[1]], SLOT_BYTES, target) == [False]


def test_bytes_that_changed_under_their_generation_are_a_miss(end: Backend, holder: Holder) -> None:
    holder.arena.view(2)[17] ^= 1
    targets = targets_for(2, SLOT_BYTES)
    assert end.reader.read(holder.ref, holder.blocks[2:4], SLOT_BYTES, targets) == [False, True]


@pytest.mark.parametrize("slot", [SLOTS, 2**31 - 1])
def test_a_slot_out_of_range_is_a_miss(end: Backend, holder: Holder, slot: int) -> None:
    blocks = [replace(holder.blocks[0], slot=slot), holder.blocks[1]]
    targets = targets_for(2, SLOT_BYTES)
    assert end.reader.read(holder.ref, blocks, SLOT_BYTES, targets) == [False, True]


def test_a_length_beyond_the_slot_is_a_miss(end: Backend, holder: Holder) -> None:
    targets = targets_for(1, SLOT_BYTES + 1)
    assert end.reader.read(holder.ref, holder.blocks[:1], SLOT_BYTES + 1, targets) == [False]


def test_another_life_of_the_holder_is_a_miss_and_its_own_still_reads(
    end: Backend, holder: Holder
) -> None:
    targets = targets_for(2, SLOT_BYTES)
    stale = replace(holder.ref, epoch=6)
    assert end.reader.read(stale, holder.blocks[:2], SLOT_BYTES, targets) == [False, False]
    assert end.reader.read(holder.ref, holder.blocks[:2], SLOT_BYTES, targets) == [True, True]


def test_nobody_there_is_a_miss(end: Backend, holder: Holder) -> None:
    holder.close()
    targets = targets_for(SLOTS, SLOT_BYTES)
    assert end.reader.read(holder.ref, holder.blocks, SLOT_BYTES, targets) == [False] * SLOTS


def test_a_successor_is_read_after_its_predecessor(end: Backend, holder: Holder) -> None:
    targets = targets_for(1, SLOT_BYTES)
    assert end.reader.read(holder.ref, holder.blocks[:1], SLOT_BYTES, targets) == [True]
    holder.close()
    arena = Arena.create("next", 4, 4096)
    refill(arena, 2, seed=77)
    publication = end.publish(arena, ProcessId(ME.name, Incarnation(8)))
    block = arena.describe(2, 4096)
    assert end.reader.read(publication.ref, [block], 4096, targets) == [True]
    assert targets[0][:4096] == block_bytes(77, 4096)
    publication.close()


def test_more_blocks_than_are_ever_under_way_at_once(end: Backend) -> None:
    slots, slot_bytes = 7, 3 * 1024 * 1024
    arena = Arena.create("big", slots, slot_bytes)
    for slot in range(slots):
        np.frombuffer(arena.view(slot), np.uint8)[:] = slot + 1
    publication = end.publish(arena, ME)
    blocks = [arena.describe(slot, slot_bytes) for slot in range(slots)]
    targets = targets_for(slots, slot_bytes)
    assert end.reader.read(publication.ref, blocks, slot_bytes, targets) == [True] * slots
    assert [target[-1] for target in targets] == list(range(1, slots + 1))
    publication.close()


def test_what_is_believed_is_right_while_the_owner_reuses_its_slots(
    end: Backend, holder: Holder
) -> None:
    """Descriptors are taken between two refills; the copies race with the refills after them."""
    stop, between = threading.Event(), threading.Lock()
    seeds = list(range(SLOTS))

    def reuse() -> None:
        seed = 100
        while not stop.is_set():
            with between:
                seed += 1
                seeds[seed % SLOTS] = seed
                refill(holder.arena, seed % SLOTS, seed)

    owner = threading.Thread(target=reuse)
    owner.start()
    try:
        for _ in range(30):
            targets = targets_for(SLOTS, SLOT_BYTES)
            with between:
                expected = [block_bytes(seed, SLOT_BYTES) for seed in seeds]
                blocks = [holder.arena.describe(slot, SLOT_BYTES) for slot in range(SLOTS)]
            verified = end.reader.read(holder.ref, blocks, SLOT_BYTES, targets)
            for i in range(SLOTS):
                assert not verified[i] or targets[i] == expected[i]
    finally:
        stop.set()
        owner.join()
