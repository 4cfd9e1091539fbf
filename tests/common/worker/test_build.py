"""From settings to the parts of a real worker process, and a short real life of it."""

import asyncio
import os
from pathlib import Path

import pytest

from common.domain.peer import Role
from common.engine.allocators.contiguous import Contiguous
from common.engine.engine import EngineLimits
from common.engine.host import EngineThread
from common.engine.schedulers.prefill_first import PrefillFirst
from common.engine.step_plan import Budget
from common.store.arena import PAGE_BYTES
from common.wire.messages import Message
from common.wire.messages.cluster import Hello, Welcome
from common.wire.port import Link
from common.wire.zmq_port import ZmqPort
from common.worker.build import build_parts
from common.worker.worker import Worker
from tests.support.ports import Recorder, process
from tests.support.worker_settings import worker_settings

ME = process("decode-0", 9)


@pytest.mark.parametrize(
    ("block_tokens", "pool_bytes", "slots", "slot_bytes"),
    [
        (32, 1 << 20, 256, PAGE_BYTES),
        (16, 1 << 16, 16, PAGE_BYTES),
        (64, (1 << 16) + 5_000, 17, PAGE_BYTES),
    ],
)
def test_the_pool_is_as_large_as_whole_pages_allow(
    block_tokens: int, pool_bytes: int, slots: int, slot_bytes: int, tmp_path: Path
) -> None:
    settings = worker_settings(tmp_path, block_tokens=block_tokens, kv_pool_bytes=pool_bytes)
    parts = build_parts(settings, ME)
    try:
        assert (parts.arena.slots, parts.arena.slot_bytes) == (slots, slot_bytes)
        assert parts.host.load.blocks_total == slots
        assert parts.layout.block_tokens == parts.card.block_tokens == block_tokens
        assert parts.port.me == ME
        assert isinstance(parts.host, EngineThread)
    finally:
        parts.transfer.close()
        parts.port.close()
        parts.arena.close()


def test_the_engine_has_the_limits_of_the_settings(tmp_path: Path) -> None:
    changes: dict[str, object] = {
        "step_tokens": 100,
        "max_sequences": 3,
        "tpot_target_ms": 7.5,
        "context_tokens": 200,
        "scheduler": "prefill_first",
        "allocator": "contiguous_pow2",
    }
    parts = build_parts(worker_settings(tmp_path, **changes), ME)
    try:
        engine = parts.host.engine
        assert engine._limits == EngineLimits(100, 3, 7.5, 200, "prefill_first", "contiguous_pow2")
        assert isinstance(engine._scheduler, PrefillFirst)
        assert engine._scheduler._budget == Budget(100, 32, 7.5e-3)
        assert isinstance(engine._allocator, Contiguous)
    finally:
        parts.transfer.close()
        parts.port.close()
        parts.arena.close()


@pytest.mark.parametrize(("asked", "served"), [(0, 8192), (200, 200), (1 << 20, 8192)])
def test_the_card_says_how_long_requests_may_be_and_the_model_has_the_last_word(
    asked: int, served: int, tmp_path: Path
) -> None:
    settings = worker_settings(tmp_path, context_tokens=asked, kv_pool_bytes=2 << 20)
    parts = build_parts(settings, ME)
    try:
        assert parts.card.context_tokens == served
        assert parts.host.engine._context_tokens == served
    finally:
        parts.transfer.close()
        parts.port.close()
        parts.arena.close()


def test_the_runner_writes_into_the_arena_and_the_cache_bumps_its_generations(
    tmp_path: Path,
) -> None:
    parts = build_parts(worker_settings(tmp_path), ME)
    try:
        cache = parts.host.engine.cache
        slots = cache.allocate(2)
        assert slots is not None
        assert [parts.arena.generation(slot) for slot in slots] == [1, 1]
        parts.arena.view(slots[0])[:] = b"\x07" * PAGE_BYTES
        parts.host.engine._runner.copy_block(slots[0], slots[1])
        length = parts.layout.block_bytes
        assert bytes(parts.arena.view(slots[1])[:length]) == b"\x07" * length
        assert parts.arena.view(slots[1])[length] == 0
    finally:
        parts.transfer.close()
        parts.port.close()
        parts.arena.close()


class RouterHandler(Recorder):
    def on_message(self, link: Link, message: Message) -> None:
        if isinstance(message, Hello):
            link.send(Welcome(accepted=True))
        super().on_message(link, message)


async def test_a_built_worker_joins_over_real_sockets_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    settings = worker_settings(tmp_path)
    router, heard = ZmqPort(process("router-0", 1), settings.router_address), RouterHandler()
    router.start(heard)
    worker = Worker(Role.DECODE, build_parts(settings, ME), settings.router_address)
    await worker.start()
    await heard.until(lambda: bool(heard.messages))
    hello = heard.messages[0]
    assert isinstance(hello, Hello)
    assert (hello.me.id, hello.me.role) == (ME, Role.DECODE)
    assert hello.me.address == settings.bind_address
    assert hello.me.arena is not None
    assert hello.me.arena.slots == 16
    assert hello.card is not None
    assert hello.card.context_tokens == 15 * 32, "the pool's room, less than the model's"
    async with asyncio.timeout(5):
        while not worker.ready():
            await asyncio.sleep(0.005)
    await worker.stop()
    router.close()
    assert os.listdir(tmp_path) == []
