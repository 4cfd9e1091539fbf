"""One measurement of a real server on loopback: all of it is kept, and also a part."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from loadtest.errors import LoadTestError
from loadtest.measurement import Measurement
from loadtest.metrics import lag_ms
from loadtest.progress import Progress
from loadtest.record import Outcome
from loadtest.run import RunClock, Server, heap_left_alone, measure_server
from loadtest.scenario import Scenario
from loadtest.writer import WordWriter
from tests.support.load_plans import load, scenario, turns, written
from tests.support.load_server import Served, serving

FAST = {"kind": "constant", "rate": 200.0}


class Shown:
    """Who shows progress, and what it saw at the end."""

    def __init__(self) -> None:
        self.progress: list[Progress] = []
        self.began_s: list[float] = []

    @asynccontextmanager
    async def __call__(self, progress: Progress, now: Callable[[], float]) -> AsyncIterator[None]:
        self.progress.append(progress)
        self.began_s.append(now())
        yield


async def measured(
    server: Server | Served, asked: Scenario, shown: Shown | None = None
) -> Measurement:
    if isinstance(server, Served):
        server = Server("here", server.url)
    runs: list[Measurement] = []
    await measure_server(server, asked, 7, runs.append, writer=WordWriter(), show=shown or Shown())
    (run,) = runs
    return run


async def test_all_that_was_asked_is_in_the_records() -> None:
    asked = scenario(load(FAST, sessions=5), targets={"ttft_ms": 5000})
    with serving() as server:
        run = await measured(server, asked)
    assert [record.outcome for record in run.records] == [Outcome.FINISHED] * 5
    assert (run.side, run.seed, run.targets, run.broken_off) == ("here", 7, asked.targets, False)
    assert [record.scheduled_s for record in sorted(run.records, key=lambda r: r.session)] == [
        pytest.approx(number / 200) for number in range(5)
    ]
    assert {record.output_tokens for record in run.records} == {3}
    assert {body["model"] for body in server.asked} == {"words"}
    assert run.server["cpu_s.client"] > 0
    assert len(set(server.prompts)) == 5
    assert len({record.request_id for record in run.records}) == 5


async def test_the_schedule_begins_when_everything_is_ready() -> None:
    shown = Shown()
    with serving() as server:
        run = await measured(server, scenario(load(FAST, sessions=3)), shown)
    assert -0.1 <= shown.began_s[0] < 0
    assert min(map(lag_ms, run.records)) >= -0.1


async def test_the_warm_up_is_neither_counted_nor_shown() -> None:
    shown = Shown()
    with serving() as server:
        run = await measured(server, scenario(load(FAST, sessions=3), warmup=2), shown)
    assert len(server.asked) == 5
    assert len(run.records) == 3
    (progress,) = shown.progress
    assert (progress.total_sent, list(progress.loads)) == (3, ["main"])
    assert progress.share_done() == 1.0


async def test_a_server_that_refuses_is_measured_but_not_when_it_cannot_be_warmed_up() -> None:
    with serving(refuses=True) as server:
        run = await measured(server, scenario(load(FAST, sessions=2)))
        assert {record.error for record in run.records} == {"full"}
        with pytest.raises(LoadTestError, match="warm-up request did not finish: full"):
            await measured(server, scenario(load(FAST, sessions=2), warmup=1))


async def test_the_name_of_the_model_is_asked_for_only_where_none_is_given() -> None:
    with serving() as server:
        await measured(Server("here", server.url, "mine"), scenario(load(FAST, sessions=1)))
    assert server.asked[0]["model"] == "mine"


async def test_faults_need_a_cluster_of_ours() -> None:
    kill: dict[str, Any] = {"at_s": 0.0, "action": "kill", "process": "decode-0"}
    with serving() as server, pytest.raises(LoadTestError, match="faults"):
        await measured(server, scenario(load(FAST, sessions=1), faults=[kill]))
    assert server.asked == []


async def test_a_run_that_is_broken_off_ends_at_once_and_keeps_what_has_ended() -> None:
    fast = written(turns(0), turns(0), arrivals=FAST, sessions=2)
    slow = load({"kind": "constant", "rate": 1.0}, sessions=600, name="slow")
    runs: list[Measurement] = []
    with serving() as server:
        running = asyncio.create_task(
            measure_server(
                Server("here", server.url), scenario(fast, slow), 7, runs.append,
                writer=WordWriter(), show=Shown(),
            )
        )  # fmt: skip
        async with asyncio.timeout(10):
            while len(server.asked) < 3:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
    (run,) = runs
    assert run.broken_off
    assert sorted(record.load for record in run.records) == ["main", "main", "slow"]
    assert gc.get_freeze_count() == 0


async def test_a_run_that_is_broken_off_before_anything_has_ended_keeps_nothing() -> None:
    runs: list[Measurement] = []
    with serving(gap_s=60.0) as server:
        running = asyncio.create_task(
            measure_server(
                Server("here", server.url), scenario(load(FAST, sessions=1)), 7, runs.append,
                writer=WordWriter(), show=Shown(),
            )
        )  # fmt: skip
        async with asyncio.timeout(10):
            while not server.asked:
                await asyncio.sleep(0.01)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
    assert runs == []


async def test_a_load_that_has_nothing_to_send_is_an_error() -> None:
    empty = written(arrivals={"kind": "users", "users": 1}, sessions=2)
    with serving() as server, pytest.raises(LoadTestError, match="small: no load had a session"):
        await measured(server, scenario(empty))


def test_the_clock_of_a_run_is_negative_before_it_begins() -> None:
    now = 50.0
    clock = RunClock(lambda: now)
    clock.start(0.1)
    assert clock() == pytest.approx(-0.1)
    assert clock.zero_s == pytest.approx(50.1)
    now = 51.0
    assert clock() == pytest.approx(0.9)


async def test_the_heap_is_the_collectors_again_whatever_happens() -> None:
    async def fail() -> None:
        async with heap_left_alone():
            assert gc.get_freeze_count() > 0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert gc.get_freeze_count() == 0


def test_a_key_is_in_no_text() -> None:
    assert "secret" not in repr(Server("here", "http://here", api_key="secret"))
