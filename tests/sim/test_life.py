"""The simulator's own machinery: clock, lives, the slow executor."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from common.domain.ids import Incarnation, ProcessId, ProcessName
from tests.support.sim.executor import SlowExecutor
from tests.support.sim.life import Life, SimLoop
from tests.support.sim.loop import WarpLoop


def played(main: Callable[[], Coroutine[Any, Any, None]], loop: type[WarpLoop] = SimLoop) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


def new_life() -> Life:
    return Life(ProcessId(ProcessName("a"), Incarnation(1)))


async def note_each_second(notes: list[float]) -> None:
    while True:
        await asyncio.sleep(1.0)
        notes.append(asyncio.get_running_loop().time())


def test_waiting_for_nothing_is_an_error_and_not_a_hang() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="everybody waits"):
        played(main)


def test_a_clock_that_stands_still_is_an_error_and_not_a_hang() -> None:
    async def main() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="stands still"):
        played(main)


def test_lateness_mixes_what_is_due_at_once_and_a_seed_repeats_it() -> None:
    def order(seed: int) -> list[int]:
        rng, done = Random(seed), list[int]()

        async def main() -> None:
            loop = asyncio.get_running_loop()
            for number in range(20):
                loop.call_later(1.0, done.append, number)
            await asyncio.sleep(2.0)

        with asyncio.Runner(loop_factory=lambda: WarpLoop(rng.random)) as runner:
            runner.run(main())
        return done

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == list(range(20)) != order(1)


def test_nothing_of_a_dead_process_runs_any_more() -> None:
    async def main() -> None:
        notes: list[float] = []
        life = new_life()
        life.spawn(note_each_second(notes), "notes")
        life.run(asyncio.get_running_loop().call_later, 5.0, notes.append, -1.0)
        await asyncio.sleep(2.5)
        life.end()
        await asyncio.sleep(10.0)
        assert notes == [1.0, 2.0]
        assert life.tasks() == []

    played(main)


def test_a_frozen_process_does_everything_later_messages_first() -> None:
    async def main() -> None:
        notes: list[str] = []
        life, loop = new_life(), asyncio.get_running_loop()
        life.run(loop.call_later, 1.0, notes.append, "timer")
        life.freeze()
        await asyncio.sleep(2.0)
        life.receive(notes.append, "message")
        assert notes == []
        life.thaw()
        await asyncio.sleep(0.1)
        assert notes == ["message", "timer"]

    played(main)


def test_the_executor_works_at_the_end_of_each_job_and_one_at_a_time() -> None:
    async def main() -> None:
        loop, executor = asyncio.get_running_loop(), SlowExecutor(lambda: 1.0)
        done: list[float] = []
        jobs = [
            asyncio.wrap_future(executor.submit(lambda: done.append(loop.time()))) for _ in range(3)
        ]
        await asyncio.sleep(1.5)
        jobs[1].cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        assert done == [1.0, 3.0]

    played(main)
