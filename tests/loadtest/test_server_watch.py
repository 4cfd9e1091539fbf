import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from deploy.local.folders import Folders
from deploy.local.identity import Identity, identify
from deploy.local.lock import take_lock
from deploy.local.state import ClusterState, Phase, ProcessState, write_state
from loadtest import server_watch
from loadtest.cluster import Cluster
from loadtest.server_watch import CpuTimes, watch

FIRST = Identity(10, 1)
SECOND = Identity(11, 2)


@dataclass
class Server:
    """One page, from `answer`, and how often it was asked for."""

    answer: Callable[[int], web.Response]
    asked: int = 0
    paths: list[str] = field(default_factory=list)
    port: int = 0

    async def handle(self, request: web.Request) -> web.Response:
        self.asked += 1
        self.paths.append(request.path)
        return self.answer(self.asked)


Start = Callable[[Callable[[int], web.Response]], Awaitable[Server]]


@pytest.fixture
async def start(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    monkeypatch.setattr(server_watch, "EVERY_S", 0.02)
    runners: list[web.AppRunner] = []

    async def started(answer: Callable[[int], web.Response]) -> Server:
        server = Server(answer)
        app = web.Application()
        app.router.add_get("/{path:.*}", server.handle)
        runner = web.AppRunner(app)
        runners.append(runner)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.port = runner.addresses[0][1]
        return server

    yield started
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


def page(number: int) -> web.Response:
    running = 0 if number == 1 else 5
    return web.Response(
        text=f"# TYPE x_total counter\nx_total {number * 10}\n"
        f"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running {running}\n"
        f"# TYPE w histogram\nw_bucket{{le=\"+Inf\"}} 1\nw_count {number}\nw_sum {number * 2}\n"
    )  # fmt: skip


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.002)


@pytest.mark.parametrize("suffix", ["", "/", "/v1"])
async def test_any_server_is_read_before_during_and_after(
    start: Start, session: aiohttp.ClientSession, suffix: str
) -> None:
    server = await start(page)
    async with watch(f"http://127.0.0.1:{server.port}{suffix}", None, session) as watched:
        assert server.asked == 1
        await until(lambda: server.asked >= 3)
    assert set(server.paths) == {"/metrics"}
    found = watched.figures()
    assert found["x"] == (server.asked - 1) * 10
    assert found["requests_running.mean"] == 5
    assert found["w.mean"] == 2
    assert found["cpu_s.client"] > 0
    assert "w_bucket" in watched.before["server"]
    assert f"x_total {server.asked * 10}" in watched.after["server"]


@pytest.mark.parametrize(
    "nothing",
    [
        lambda: web.Response(status=404),
        lambda: web.Response(text="<html></html>", content_type="text/html"),
    ],
)
async def test_a_server_without_metrics_gives_nothing_and_is_not_asked_again(
    start: Start, session: aiohttp.ClientSession, nothing: Callable[[], web.Response]
) -> None:
    server = await start(lambda number: nothing())
    async with watch(f"http://127.0.0.1:{server.port}", None, session) as watched:
        await asyncio.sleep(0.1)
        assert server.asked == 1
    assert watched.figures().keys() == {"cpu_s.client"}
    assert watched.before == {}


async def test_nobody_there_and_a_page_that_is_none_give_nothing(
    start: Start, session: aiohttp.ClientSession
) -> None:
    server = await start(lambda number: web.Response(text="what?"))
    for port in (server.port, 1):
        async with watch(f"http://127.0.0.1:{port}", None, session) as watched:
            pass
        assert watched.figures().keys() == {"cpu_s.client"}


async def test_of_a_cluster_of_ours_every_process_is_asked_on_its_admin_port(
    start: Start, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    first, second = await start(page), await start(page)
    folders = Folders(tmp_path)
    folders.create()
    lock, me = take_lock(folders.lock), identify(os.getpid())
    assert lock is not None
    assert me is not None
    processes = tuple(
        ProcessState(name=f"decode-{number}", role="decode", admin_port=server.port, identity=me,
                     restarts=0, ready=True)
        for number, server in enumerate((first, second))
    )  # fmt: skip
    write_state(folders.state, ClusterState(
        supervisor=me, topology="t", url="u", phase=Phase.READY, processes=processes
    ))  # fmt: skip
    async with watch("http://127.0.0.1:1", Cluster("u", folders), session) as watched:
        await until(lambda: min(first.asked, second.asked) >= 3)
    lock.release()
    found = watched.figures()
    assert found["x"] == (first.asked + second.asked - 2) * 10
    assert found["requests_running.max"] == 10
    assert found.keys() >= {"cpu_s.decode-0", "cpu_s.decode-1", "cpu_s.client"}
    assert set(watched.after) == {"decode-0", "decode-1"}


def test_cpu_time_of_a_process_is_that_of_all_its_lives_within_the_run() -> None:
    times = CpuTimes()
    times.note({("a", FIRST): 10.0, ("b", FIRST): 1.0}, begin=True)
    times.note({("a", FIRST): 12.0, ("b", FIRST): 1.5})
    # A pid that is gone reads as nothing.
    times.note({("a", FIRST): 0.0, ("b", FIRST): 2.0})
    times.note({("a", SECOND): 3.0, ("b", FIRST): 2.5})
    assert times.figures() == {"cpu_s.a": 5.0, "cpu_s.b": 1.5}
