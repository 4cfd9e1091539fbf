"""An event loop whose clock jumps to the next timer instead of waiting for it.

For tests of code that measures silence and deadlines by the loop's clock and talks only in memory.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    """Never sleeps: what it would have slept is added to the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everybody waits for nothing")
            self.now += max(0.0, timeout)
        return ready


class WarpLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


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
