"""The engine's own thread. The only file that knows how engine and event loop live side by side.

Commands go in from the loop, events come back to it once per step; neither side waits for the
other. `steps` and `load` are plain attributes replaced whole, so the heartbeat may read them from
its thread.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from common.engine.engine import Engine
from common.engine.job import Command, EngineEvent
from common.wire.messages.cluster import Load

STALL_PAUSE_S = 0.005
"""How long to wait for a command when no sequence can run (all wait for blocks)."""


class EngineHost(Protocol):
    """Where an engine runs."""

    @property
    def steps(self) -> int: ...

    @property
    def load(self) -> Load: ...

    @property
    def engine(self) -> Engine:
        """For numbers that may be slightly old; never for commands."""

    def start(self, deliver: Callable[[Sequence[EngineEvent]], None]) -> None:
        """`deliver` is called on the loop with the events of one step, in order."""

    def submit(self, command: Command) -> None: ...

    def stop(self) -> None: ...


def load_of(engine: Engine) -> Load:
    """As of the end of its last step."""
    now = engine.integral.current
    return Load(
        running=engine.running,
        waiting=engine.waiting,
        blocks_total=engine.cache.slots,
        blocks_used=now.blocks_used,
        blocks_cached=engine.cache.cached,
        tokens_live=now.tokens_live,
        blocks_empty=now.blocks_empty,
    )


class EngineThread:
    """Implements EngineHost with a thread. A failure of the engine is the process's failure."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.steps = 0
        self.load = load_of(engine)
        self._stalled = False
        """The last step could compute nothing, because every sequence waits for blocks."""
        self._inbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self, deliver: Callable[[Sequence[EngineEvent]], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._deliver = deliver
        self._thread.start()

    def submit(self, command: Command) -> None:
        self._inbox.put(command)

    def stop(self) -> None:
        self._inbox.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._take_commands():
                events = self.engine.step()
                self._stalled = self.engine.busy and self.engine.steps == self.steps
                self.steps, self.load = self.engine.steps, load_of(self.engine)
                if events:
                    self._loop.call_soon_threadsafe(self._deliver, events)
        except Exception as error:  # noqa: BLE001  handed to the loop, where it ends the process
            context = {"message": "the engine failed", "exception": error}
            self._loop.call_soon_threadsafe(self._loop.call_exception_handler, context)

    def _take_commands(self) -> bool:
        """Handle what is there; wait for more only if a step would do nothing. False: stop."""
        timeout = STALL_PAUSE_S if self._stalled else None
        waits = self._stalled or not self.engine.busy
        while True:
            try:
                command = self._inbox.get(block=waits, timeout=timeout)
            except queue.Empty:
                return True
            if command is None:
                return False
            self.engine.handle(command)
            waits = False


class EngineOnLoop:
    """Implements EngineHost on the event loop itself, a step every `step_s` of the loop's clock:
    for the simulator, where that clock is virtual and threads would end determinism."""

    def __init__(self, engine: Engine, step_s: float) -> None:
        self.engine = engine
        self.steps = 0
        self.load = load_of(engine)
        self._step_s = step_s
        self._next: asyncio.TimerHandle | None = None

    def start(self, deliver: Callable[[Sequence[EngineEvent]], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._deliver = deliver

    def submit(self, command: Command) -> None:
        self.engine.handle(command)
        if self._next is None:
            self._next = self._loop.call_later(self._step_s, self._step)

    def _step(self) -> None:
        events = self.engine.step()
        self.steps, self.load = self.engine.steps, load_of(self.engine)
        self._next = self._loop.call_later(self._step_s, self._step) if self.engine.busy else None
        if events:
            self._deliver(events)

    def stop(self) -> None:
        if self._next is not None:
            self._next.cancel()
