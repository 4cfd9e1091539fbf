"""The worker thread: what is chosen, what is counted, what a cancelled pull leaves behind."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from common.domain.block import ArenaRef, Descriptor
from common.store.transfer import Moved, Transfer
from tests.support.arenas import SLOT_BYTES, SLOTS, filled_arena, targets_for

REF = ArenaRef("holder-0", 7, "here", "", "", SLOT_BYTES, SLOTS)
BLOCKS = [Descriptor(0, 1, 2), Descriptor(1, 1, 2)]


class Gate:
    """A back end that stands still until told to go on."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.reads = 0
        self.closed = False

    def read(
        self,
        ref: ArenaRef,
        descriptors: Sequence[Descriptor],
        length: int,
        targets: Sequence[memoryview],
    ) -> list[bool]:
        self.entered.set()
        assert self.open.wait(10)
        self.reads += 1
        return [True] + [False] * (len(descriptors) - 1)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def near() -> Gate:
    return Gate()


@pytest.fixture
def far() -> Gate:
    return Gate()


@pytest.fixture
def transfer(near: Gate, far: Gate) -> Iterator[Transfer]:
    transfer = Transfer("here", near, far, ThreadPoolExecutor(1))
    yield transfer
    near.open.set()
    far.open.set()
    transfer.close()
    assert near.closed
    assert far.closed


async def test_the_host_decides_which_back_end_reads_and_counts(
    transfer: Transfer, near: Gate, far: Gate
) -> None:
    near.open.set()
    far.open.set()
    targets = targets_for(2, 100)
    assert await transfer.pull(REF, BLOCKS, 100, targets) == [True, False]
    assert (near.reads, far.reads) == (1, 0)
    await transfer.pull(replace(REF, host="there"), BLOCKS, 50, targets)
    assert (near.reads, far.reads) == (1, 1)
    counted = {name: replace(moved, seconds=0) for name, moved in transfer.moved.items()}
    assert counted == {"near": Moved(1, 100, 1), "far": Moved(1, 50, 1)}


async def test_the_loop_turns_while_a_pull_stands_still(transfer: Transfer, near: Gate) -> None:
    pull = asyncio.create_task(transfer.pull(REF, BLOCKS, 100, targets_for(2, 100)))
    await asyncio.to_thread(near.entered.wait, 10)
    assert not pull.done()
    near.open.set()
    assert await pull == [True, False]


async def test_a_cancelled_pull_ends_only_when_its_copy_has(transfer: Transfer, near: Gate) -> None:
    pull = asyncio.create_task(transfer.pull(REF, BLOCKS, 100, targets_for(2, 100)))
    await asyncio.to_thread(near.entered.wait, 10)
    for _ in range(3):
        pull.cancel()
        await asyncio.sleep(0.01)
        assert not pull.done()
    near.open.set()
    with pytest.raises(asyncio.CancelledError):
        await pull
    assert near.reads == 1


async def test_a_pull_cancelled_in_the_queue_never_copies(transfer: Transfer, near: Gate) -> None:
    targets = targets_for(2, 100)
    first = asyncio.create_task(transfer.pull(REF, BLOCKS, 100, targets))
    second = asyncio.create_task(transfer.pull(REF, BLOCKS, 100, targets))
    await asyncio.to_thread(near.entered.wait, 10)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert not first.done()
    near.open.set()
    await first
    assert near.reads == 1


async def test_no_blocks_ask_nobody(transfer: Transfer, near: Gate) -> None:
    assert await transfer.pull(REF, [], 100, []) == []
    assert near.reads == 0


@pytest.mark.parametrize(("count", "size"), [(1, 100), (3, 100), (2, 99)])
async def test_targets_that_do_not_fit_are_the_callers_fault(
    transfer: Transfer, count: int, size: int
) -> None:
    with pytest.raises(ValueError, match="targets"):
        await transfer.pull(REF, BLOCKS, 100, targets_for(count, size))


async def test_descriptors_and_arenas_are_made_off_the_loop(transfer: Transfer) -> None:
    arena = filled_arena()
    blocks = await transfer.describe(arena, [3, 1], 64)
    assert blocks == [arena.describe(3, 64), arena.describe(1, 64)]
    made = await transfer.create("test", 3, 4096)
    assert (made.slots, made.slot_bytes) == (3, 4096)


async def test_the_real_back_ends_stand_in_the_table() -> None:
    transfer = Transfer.open("here")
    nobody = replace(REF, socket_path="/nonexistent/arena")
    assert await transfer.pull(nobody, BLOCKS, 100, targets_for(2, 100)) == [False, False]
    transfer.close()
