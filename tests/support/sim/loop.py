"""An event loop whose clock jumps to the next timer instead of waiting for it.

For code that measures silence and deadlines by the loop's clock and talks only in memory: no
threads, no sockets, so a run is a function of its inputs. A `lateness` drawn from a seed makes
every timer a little late, as real ones are, and so shuffles what is due at the same moment.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")
TURNS_AT_ONE_MOMENT = 100_000
"""More mean that the clock will never move again."""


class _Jumping(selectors.DefaultSelector):
    """Never sleeps: what it would have slept is added to the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits for nothing")
        if timeout > 0:
            self.now += timeout
            self._turns = 0
        self._turns += 1
        if self._turns > TURNS_AT_ONE_MOMENT:
            raise RuntimeError(f"the clock stands still at {self.now}")
        return []


class WarpLoop(asyncio.SelectorEventLoop):
    def __init__(self, lateness: Callable[[], float] = lambda: 0.0) -> None:
        self._jumping = _Jumping()
        self._lateness = lateness
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return super().call_at(when + self._lateness(), callback, *args, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """There is one thread."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """At once: a thread would race with the clock."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  it belongs to whoever awaits the future
            future.set_exception(error)
        return future


def warped(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run `main()` to its end on a clock that starts at 0."""
    with asyncio.Runner(loop_factory=WarpLoop) as runner:
        return runner.run(main())


def on_a_warped_clock(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Decorates a test that is a coroutine function."""

    @wraps(test)
    def run(**arguments: object) -> None:
        warped(lambda: test(**arguments))

    return run
