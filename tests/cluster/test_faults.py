"""kill -9 of each role under load: what runs goes on or ends once, what comes is told to come back.

Every stream is judged against the mock's known output, so a fault that lets a wrong token through
fails here, too. Nothing may stay held once the load is over.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import aiohttp
import pytest

from common.engine.mock import KV_BYTES
from tests.support.live import Live, wait_until
from tests.support.streams import Load, Streamed, mock_prompt, stream

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

CLIENTS = 14
LENGTHS = (3, 8, 20, 90)
BEFORE = 25
"""Streams that must have ended before the fault."""
CLEAN_END_S = 5.0
BACK_S = 10.0
LEFT_S = 2.0
CHUNK = 512
RELEASED_S = 15.0
"""A prefill worker whose reader died keeps its blocks until their lease has lapsed."""


@dataclass(frozen=True)
class Scene:
    """A cluster under a load that flows."""

    fleet: Live
    load: Load
    record: Callable[[str, object], None]

    async def kill(self, *names: str) -> tuple[float, list[Streamed]]:
        """When they were killed, and what ran then. Returns when all are back, which they are
        within ten seconds, and the load flows again."""
        fleet, load, now = self.fleet, self.load, asyncio.get_running_loop().time
        before = {name: fleet.kill(name) for name in names}
        killed_at, running = now(), load.running()

        def back() -> bool:
            pids = fleet.pids()
            processes = [fleet.process(name) for name in names]
            return all(p.ready and pids.get(p.name) != before[p.name] for p in processes)

        await load.until(back, BACK_S, f"{names} are back")
        await load.until(fleet.is_ready, BACK_S, "the gateway is ready again")
        assert now() - killed_at < BACK_S
        self.record("back_after_s", round(now() - killed_at, 1))
        count = self.exact
        await load.until(lambda: self.exact >= count + BEFORE, 20, "the load flows again")
        await load.until(lambda: all(one.ended for one in running), 20, "what ran has ended")
        self.record("longest_end_s", round(max(one.ended for one in running) - killed_at, 1))
        return killed_at, running

    @property
    def exact(self) -> int:
        return sum(done.exact for done in self.load.done)

    def unexplained(self) -> list[str]:
        """Neither exact nor ended by one error nor refused with a delay."""
        done = self.load.done
        return [one.told() for one in done if not (one.exact or one.failed_cleanly)]


@pytest.fixture
async def scene(
    fleet: Live, record_property: Callable[[str, object], None]
) -> AsyncIterator[Scene]:
    wait_until(fleet.is_ready, BACK_S, "the cluster serves")
    async with Load(fleet.url, CLIENTS, LENGTHS, seed=1) as load:
        started = asyncio.get_running_loop().time()
        await load.until(lambda: len(load.done) >= BEFORE, 20, "a load that flows")
        elapsed = asyncio.get_running_loop().time() - started
        record_property("requests_per_s", round(len(load.done) / elapsed, 1))
        assert all(done.exact for done in load.done)
        yield Scene(fleet, load, record_property)
    assert not [done.told() for done in load.done if done.wrong]
    freed = await asyncio.to_thread(fleet.wait_until_nothing_is_held, RELEASED_S)
    record_property("nothing_held_after_s", round(freed, 1))


async def test_no_stream_needs_the_kvstore(scene: Scene) -> None:
    await scene.kill("kvstore-0")
    assert not [done.told() for done in scene.load.done if not done.exact]


async def test_prompts_under_way_in_prefill_workers_are_computed_elsewhere(scene: Scene) -> None:
    fleet = scene.fleet

    def lost() -> int:
        return sum(fleet.log(p.name).count("prefill_lost") for p in fleet.processes("decode"))

    def moved() -> int:
        return sum(fleet.status(p.name)["bytes_moved"]["near"] for p in fleet.processes("decode"))

    lost_before = lost()
    async with aiohttp.ClientSession(fleet.url) as session:
        long = [Streamed(mock_prompt(CHUNK * 4, seed), 5, 0.0) for seed in range(4)]
        asked = [asyncio.create_task(stream(session, one)) for one in long]
        moved_before = moved()
        await scene.load.until(lambda: moved() > moved_before + CHUNK * KV_BYTES, 20, "a chunk")
        await scene.kill("prefill-0", "prefill-1")
        await asyncio.gather(*asked)
    assert lost() > lost_before
    assert not [one.told() for one in [*long, *scene.load.done] if not one.exact]


async def test_streams_that_run_outlive_the_router_and_new_ones_are_told_to_come_back(
    scene: Scene,
) -> None:
    killed_at, running = await scene.kill("router-0")
    begun = [one for one in running if one.ids]
    assert begun
    assert not [one.told() for one in begun if not one.exact]
    for one in running:
        assert one.exact or one.ended - killed_at <= CLEAN_END_S
    assert any(done.status == 503 for done in scene.load.done)
    assert not scene.unexplained()


async def test_one_decode_worker_of_two_takes_its_streams_with_it_and_nothing_else(
    scene: Scene,
) -> None:
    killed_at, running = await scene.kill("decode-0")
    lost = [one for one in running if not one.exact]
    assert 0 < len(lost) < len(running)
    assert all(one.ended - killed_at <= CLEAN_END_S for one in lost)
    assert not scene.unexplained()


async def test_without_any_decode_worker_requests_are_told_to_come_back(scene: Scene) -> None:
    killed_at, running = await scene.kill("decode-0", "decode-1")
    assert all(one.ended - killed_at <= CLEAN_END_S for one in running)
    assert any(done.status == 503 for done in scene.load.done if done not in running)
    assert not scene.unexplained()


async def test_a_killed_gateway_breaks_its_connections_and_serves_again_on_the_same_port(
    scene: Scene,
) -> None:
    killed_at, running = await scene.kill("gateway-0")
    broken = [one for one in running if one.status == 0]
    assert broken
    assert all(one.ended - killed_at <= CLEAN_END_S for one in broken)
    assert not [one.told() for one in running if not (one.exact or one in broken)]
    assert not any("error" in one.ends for one in broken)
    assert scene.load.done[-1].exact


async def test_clients_that_leave_anywhere_free_everything_at_once(fleet: Live) -> None:
    draw = random.Random(3)

    async def leave(session: aiohttp.ClientSession, seed: int) -> None:
        asked = Streamed(mock_prompt(draw.randint(20, 900), seed), 60, 0.0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(draw.random() * 0.8):
                await stream(session, asked)

    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(fleet.url, connector=connector) as session:
        await asyncio.gather(*(leave(session, seed) for seed in range(50)))
        await asyncio.to_thread(fleet.wait_until_nothing_is_held, LEFT_S)
        last = await stream(session, Streamed(mock_prompt(70, 1), 5, 0.0))
    assert last.exact, last.told()
