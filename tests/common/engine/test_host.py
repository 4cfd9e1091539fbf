"""Where an engine runs: a thread beside the loop, or the loop itself."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from common.engine.engine import EngineLimits
from common.engine.host import EngineOnLoop, EngineThread, load_of
from common.engine.job import Add, Done, Drop, Emitted, EngineEvent, Held, Start
from common.engine.mock import MockRunner, expected_output
from common.engine.runner import Batch, Drawn
from common.kv.hashing import extend_chain
from common.wire.messages.cluster import Load
from tests.support.engines import ROOT, Bench, greedy, key, prompt_of
from tests.support.sim.loop import on_a_warped_clock, warped


def add(name: str, prompt: int = 20, max_tokens: int = 10, seed: int = 0) -> Add:
    tokens = prompt_of(prompt, seed)
    return Add(key(name), tokens, extend_chain(ROOT, tokens), ROOT, greedy(max_tokens))


class Owner:
    """Starts what is held, remembers what it hears and on which thread."""

    def __init__(self, host: EngineThread | EngineOnLoop, start: bool = True) -> None:
        self.host = host
        self.events: list[EngineEvent] = []
        self.threads: set[int] = set()
        self._starts = start
        self._changed = asyncio.Event()
        host.start(self.deliver)

    def deliver(self, events: Sequence[EngineEvent]) -> None:
        assert events
        self.threads.add(threading.get_ident())
        self.events += events
        for event in events:
            if isinstance(event, Held) and self._starts:
                self.host.submit(Start(event.key, event.cached_tokens))
        self._changed.set()

    async def until(self, kind: type[EngineEvent], count: int = 1) -> None:
        async with asyncio.timeout(5):
            while sum(isinstance(event, kind) for event in self.events) < count:
                self._changed.clear()
                await self._changed.wait()

    def output(self, name: str) -> list[int]:
        return [
            event.drawn.token
            for event in self.events
            if isinstance(event, Emitted) and event.key == key(name)
        ]


@pytest.fixture
def threads() -> Iterator[list[EngineThread]]:
    hosts: list[EngineThread] = []
    yield hosts
    for host in hosts:
        host.stop()
    assert "engine" not in {thread.name for thread in threading.enumerate()}


async def test_commands_go_in_and_events_come_back_on_the_loop(
    threads: list[EngineThread],
) -> None:
    bench = Bench()
    threads.append(host := EngineThread(bench.engine))
    owner = Owner(host)
    for index in range(3):
        host.submit(add(f"r{index}", seed=index))
    await owner.until(Done, 3)
    for index in range(3):
        assert owner.output(f"r{index}") == expected_output(prompt_of(20, index), greedy(10))
    assert owner.threads == {threading.get_ident()}
    assert host.steps >= 10


async def test_the_loop_turns_while_a_step_takes_its_time(threads: list[EngineThread]) -> None:
    slow = MockRunner(32, pause=lambda prefill, decode: time.sleep(0.05))
    threads.append(host := EngineThread(Bench(runner=slow).engine))
    owner = Owner(host)
    host.submit(add("a", max_tokens=2))
    turns = 0
    while not any(isinstance(event, Done) for event in owner.events):
        await asyncio.sleep(0.001)
        turns += 1
    assert turns > 20


async def test_steps_follow_each_other_without_a_pause(threads: list[EngineThread]) -> None:
    """A pause of 5 ms before each would show as two seconds."""
    threads.append(host := EngineThread(Bench().engine))
    owner = Owner(host)
    started = time.perf_counter()
    host.submit(add("a", max_tokens=400))
    await owner.until(Done)
    assert time.perf_counter() - started < 1.0


async def test_what_waits_is_admitted_when_another_ends_without_being_asked(
    threads: list[EngineThread],
) -> None:
    bench = Bench(limits=EngineLimits(max_sequences=1))
    threads.append(host := EngineThread(bench.engine))
    owner = Owner(host)
    host.submit(add("a"))
    host.submit(add("b", seed=1))
    await owner.until(Done, 2)
    assert owner.output("b") == expected_output(prompt_of(20, 1), greedy(10))


async def test_an_idle_or_stalled_engine_does_not_spin(
    threads: list[EngineThread], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(slots=2, block_tokens=16)
    calls = 0
    step = bench.engine.step

    def counted() -> list[EngineEvent]:
        nonlocal calls
        calls += 1
        return step()

    monkeypatch.setattr(bench.engine, "step", counted)
    threads.append(host := EngineThread(bench.engine))
    owner = Owner(host, start=False)
    host.submit(add("held", prompt=30))
    await owner.until(Held)
    before = calls
    await asyncio.sleep(0.03)
    assert calls == before, "held alone: nothing to do until a command"
    host.submit(add("waits", prompt=30))
    await asyncio.sleep(0.06)
    assert calls - before < 30, "it looks again now and then"
    host.submit(Drop(key("held")))
    await owner.until(Held, 2)


async def test_load_and_steps_can_be_read_at_any_time(threads: list[EngineThread]) -> None:
    bench = Bench(slots=16)
    threads.append(host := EngineThread(bench.engine))
    assert host.load == Load(blocks_total=16)
    owner = Owner(host, start=False)
    host.submit(add("a", prompt=70))
    await owner.until(Held)
    assert host.load == Load(running=1, blocks_total=16, blocks_used=3, blocks_empty=3)
    assert host.load == load_of(bench.engine)


async def test_a_failure_of_the_engine_reaches_the_loop(threads: list[EngineThread]) -> None:
    class Broken(MockRunner):
        def step(self, batch: Batch) -> list[Drawn]:
            raise FloatingPointError("not a number")

    threads.append(host := EngineThread(Bench(runner=Broken(32)).engine))
    failures: list[dict[str, object]] = []
    failed = asyncio.Event()

    def note(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        failures.append(context)
        failed.set()

    asyncio.get_running_loop().set_exception_handler(note)
    Owner(host)
    host.submit(add("a"))
    async with asyncio.timeout(5):
        await failed.wait()
    (context,) = failures
    assert isinstance(context["exception"], FloatingPointError)


async def test_stop_ends_the_thread_in_the_middle_of_work(threads: list[EngineThread]) -> None:
    threads.append(host := EngineThread(Bench(slots=300).engine))
    owner = Owner(host)
    host.submit(add("a", max_tokens=5_000))
    await owner.until(Emitted, 3)
    host.stop()
    steps = host.steps
    await asyncio.sleep(0.01)
    assert host.steps == steps < 5_000


@on_a_warped_clock
async def test_on_the_loop_a_step_takes_the_time_it_is_told_to() -> None:
    host = EngineOnLoop(Bench().engine, step_s=0.25)
    owner = Owner(host)
    now = asyncio.get_running_loop().time
    host.submit(add("a", max_tokens=10))
    await owner.until(Done)
    # One step to reserve, one for the prompt and the first token, nine for the others.
    assert now() == pytest.approx(11 * 0.25)
    assert owner.output("a") == expected_output(prompt_of(20), greedy(10))
    assert (host.steps, host.load.running) == (10, 0)


def test_on_the_loop_an_idle_engine_sets_no_timer() -> None:
    async def main() -> None:
        host = EngineOnLoop(Bench().engine, step_s=0.25)
        owner = Owner(host)
        host.submit(add("a", max_tokens=2))
        await owner.until(Done)
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="waits for nothing"):
        warped(main)


@on_a_warped_clock
async def test_on_the_loop_stop_cancels_the_next_step() -> None:
    host = EngineOnLoop(Bench().engine, step_s=0.25)
    owner = Owner(host)
    host.submit(add("a", max_tokens=100))
    await owner.until(Emitted, 3)
    host.stop()
    steps = host.steps
    await asyncio.sleep(5)
    assert host.steps == steps
