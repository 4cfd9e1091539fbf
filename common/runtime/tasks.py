"""The background tasks of one service: all known by name, none can fail unseen.

An exception that a task lets through ends the process: it is handed to `on_failure`, by default the
loop's exception handler, which `run()` makes fatal. A task that returns is forgotten.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Protocol

OnFailure = Callable[[str, BaseException], None]


class TaskHandle(Protocol):
    """All that the one who spawned a task may do with it; its result and failure are not his."""

    def cancel(self) -> bool: ...
    def done(self) -> bool: ...
    def cancelled(self) -> bool: ...


def _tell_loop(name: str, error: BaseException) -> None:
    asyncio.get_running_loop().call_exception_handler(
        {"message": f"task {name} failed", "exception": error}
    )


class Tasks:
    def __init__(self, on_failure: OnFailure = _tell_loop) -> None:
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, coro: Coroutine[object, object, None], name: str) -> TaskHandle:
        task = asyncio.get_running_loop().create_task(coro, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def __len__(self) -> int:
        return len(self._tasks)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._on_failure(task.get_name(), error)

    async def cancel_all(self) -> None:
        """Cancels what runs, the calling task excepted, and waits until it has ended."""
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
