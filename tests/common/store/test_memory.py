"""The in-memory twin: no thread, and an arena is gone when its publication is closed."""

import asyncio

import pytest

from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.store.memory import MemoryArenas
from tests.support.arenas import SLOT_BYTES, block_bytes, filled_arena, targets_for

ME = ProcessId(ProcessName("decode-0"), Incarnation(3))
NEXT = ProcessId(ProcessName("decode-0"), Incarnation(4))


async def test_the_in_memory_transfer_has_finished_before_anything_else_runs() -> None:
    transfer = MemoryArenas().transfer()
    arena = filled_arena()
    order: list[str] = []
    asyncio.get_running_loop().call_soon(order.append, "other")
    job = transfer._executor.submit(order.append, "copy")
    assert job.done()
    assert await transfer.describe(arena, [0], 10) == [arena.describe(0, 10)]
    assert order == ["copy", "other"]
    transfer.close()


async def test_two_lives_of_a_name_are_two_arenas() -> None:
    arenas = MemoryArenas()
    old, new = filled_arena(), filled_arena()
    new.view(1)[:3] = b"new"
    first, second = arenas.publish(old, ME), arenas.publish(new, NEXT)
    transfer = arenas.transfer()
    (target,) = targets_for(1, SLOT_BYTES)
    assert await transfer.pull(first.ref, [old.describe(1, SLOT_BYTES)], SLOT_BYTES, [target])
    assert target == block_bytes(1, SLOT_BYTES)
    second.close()
    block = new.describe(1, SLOT_BYTES)
    assert await transfer.pull(second.ref, [block], SLOT_BYTES, [target]) == [False]
    assert await transfer.pull(first.ref, [old.describe(1, 9)], 9, [target]) == [True]


async def test_an_error_in_a_job_reaches_whoever_waits_for_it() -> None:
    transfer = MemoryArenas().transfer()
    with pytest.raises(ValueError, match="cannot be an arena"):
        await transfer.create("test", 0, 0)
