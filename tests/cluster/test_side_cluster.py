"""A side's cluster is real, has the side's settings, and is gone whatever happens. What is done to
it under load, and what it says of itself, is seen.
"""

import asyncio
import time
from pathlib import Path

import aiohttp
import pytest

from deploy.local.folders import Folders
from deploy.local.lock import lock_holder
from loadtest.cluster import Cluster, side_cluster
from loadtest.errors import LoadTestError
from loadtest.faults import strike
from loadtest.scenario import Fault, Side
from loadtest.server_watch import watch
from tests.support.live import TOPOLOGIES, assert_nothing_left, wait_until
from tests.support.streams import Load

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

MOCK = str(TOPOLOGIES / "mock-2p2d.toml")


async def test_it_serves_and_is_gone_when_the_measurement_fails(tmp_path: Path) -> None:
    side = Side(name="small", topology=MOCK, settings={"context_tokens": 64})
    seen: list[Cluster] = []

    async def measure() -> None:
        async with side_cluster(side, tmp_path) as cluster, aiohttp.ClientSession() as session:
            assert {process.role for process in cluster.state().processes} >= {"decode", "gateway"}
            async with session.get(f"{cluster.url}/v1/models") as reply:
                (model,) = (await reply.json())["data"]
            assert model["max_model_len"] == 64
            seen.append(cluster)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await measure()
    with pytest.raises(LoadTestError, match="has ended"):
        seen[0].state()
    assert_nothing_left(tmp_path)


async def test_a_process_killed_under_load_is_seen_and_so_is_what_the_others_did(
    tmp_path: Path,
) -> None:
    kill = Fault(at_s=0.5, action="kill", process="decode-0")
    pause = Fault(at_s=0.6, action="pause", process="prefill-1", seconds=0.3)
    drain = Fault(at_s=0.5, action="drain", process="prefill-0")
    async with (
        side_cluster(Side(name="small", topology=MOCK), tmp_path) as cluster,
        aiohttp.ClientSession() as session,
        watch(cluster.url, cluster, session) as watched,
        Load(cluster.url, 4, (3, 20), seed=1) as load,
    ):
        began = time.monotonic()
        now = lambda: time.monotonic() - began  # noqa: E731
        async with strike([kill, pause, drain], cluster, now) as marks:
            await load.until(
                lambda: sum("ready again" in mark.text for mark in marks) == 2, 20, "both are back"
            )
    texts = [mark.text.split(" after")[0] for mark in marks]
    assert set(texts) == {
        "kill decode-0", "decode-0 is ready again", "pause prefill-1", "prefill-1 goes on",
        "drain prefill-0", "prefill-0 has drained and ended", "prefill-0 is ready again",
    }  # fmt: skip
    found = watched.figures()
    assert found["twinfleet_worker_generation_tokens"] > 0
    assert found["twinfleet_router_workers_lost"] >= 1
    assert found["requests_running.max"] > 0
    assert 0 <= found["kv_waste"] < 1
    assert 0 < found["kv_usage.max"] <= 1
    assert found["cpu_s.decode-0"] > 0
    assert found["cpu_s.client"] > 0
    assert "twinfleet_worker_kv_blocks" in watched.after["decode-0"]


async def test_one_that_is_cancelled_while_it_starts_is_gone(tmp_path: Path) -> None:
    async def measure() -> None:
        async with side_cluster(Side(name="small", topology=MOCK), tmp_path):
            raise AssertionError("it was to be cancelled before")

    running = asyncio.create_task(measure())
    folders = Folders(tmp_path)
    await asyncio.to_thread(wait_until, folders.state.exists, 20, "a supervisor writes its state")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert lock_holder(folders.lock) is None
    assert_nothing_left(tmp_path)


async def test_one_that_does_not_start_says_what_up_said(tmp_path: Path) -> None:
    side = Side(name="small", topology=MOCK, settings={"max_sequences": "many"})
    with pytest.raises(LoadTestError, match=r"(?s)side small: no cluster\..*max_sequences"):
        async with side_cluster(side, tmp_path):
            pass
    assert_nothing_left(tmp_path)
