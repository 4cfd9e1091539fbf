"""One life of one simulated process: whatever it started ends with it.

A life is a context: tasks and timers that its code starts inherit it, so the loop knows whose they
are. A kill is what the kernel does: connections close, nothing of the process runs any more except
the cancellation of its tasks, which can reach nobody. Frozen, it runs nothing for a while; what was
due meanwhile happens when it thaws, messages before timers, as after SIGCONT.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

from common.domain.ids import ProcessId
from common.wire.memory_port import MemoryPort
from tests.support.sim.loop import WarpLoop

T = TypeVar("T")
_LIFE: ContextVar["Life"] = ContextVar("life")


class Life:
    def __init__(self, me: ProcessId) -> None:
        self.me = me
        self.alive = True
        self.ports: list[MemoryPort] = []
        self.frozen = False
        self._late_messages: list[Callable[[], None]] = []
        self._late_timers: list[Callable[[], None]] = []
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._context = copy_context()
        self._context.run(_LIFE.set, self)

    @property
    def context(self) -> Context:
        """For code of this process; a new one each time, because one cannot be entered twice."""
        return self._context.copy()

    def run(self, call: Callable[..., T], *args: Any) -> T:
        return self.context.run(call, *args)

    def spawn(self, coro: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(coro, name=name, context=self.context)

    def receive(self, call: Callable[..., None], *args: Any) -> None:
        """The network has something for it."""
        if self.frozen:
            self._late_messages.append(partial(self.run, call, *args))
        elif self.alive:
            self.run(call, *args)

    def timer(self, callback: Callable[..., object], *args: Any) -> None:
        """A timer of its code is due."""
        if self.frozen:
            self._late_timers.append(partial(callback, *args))
        elif self.alive:
            callback(*args)

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        self.frozen = False
        late = [*self._late_messages, *self._late_timers]
        self._late_messages, self._late_timers = [], []
        loop = asyncio.get_running_loop()
        for call in late:
            loop.call_soon(call, context=self.context)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks[task] = None
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))

    def tasks(self) -> list[str]:
        """Names of what runs."""
        return sorted(task.get_name() for task in self._tasks)

    def end(self) -> None:
        self.alive = self.frozen = False
        for port in self.ports:
            port.close()
        for task in list(self._tasks):
            task.cancel()


def life_of(context: Context | None = None) -> Life | None:
    return _LIFE.get(None) if context is None else context.get(_LIFE)


class SimLoop(WarpLoop):
    """Keeps the books of lives, and drops the timers of those that ended."""

    def create_task(
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Any = None
    ) -> asyncio.Task[T]:
        task = super().create_task(coro, name=name, context=context)
        life = life_of(context)
        if life is not None:
            life.adopt(task)
        return task

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        life = life_of(context)
        if life is not None:
            args, callback = (callback, *args), life.timer
        return super().call_at(when, callback, *args, context=context)
