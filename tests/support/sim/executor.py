"""The transfer thread on a virtual clock: one job after the other, each taking a while."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class SlowExecutor(Executor):
    """A job's work is done at the end of its time."""

    def __init__(self, duration: Callable[[], float]) -> None:
        self._duration = duration
        self._free_at = 0.0
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        loop = asyncio.get_running_loop()
        job: Future[T] = Future()
        self._jobs.append((job, lambda: fn(*args, **kwargs)))
        self._free_at = max(self._free_at, loop.time()) + self._duration()
        loop.call_at(self._free_at, self._work)
        return job

    def _work(self) -> None:
        job, work = self._jobs.popleft()
        if not job.set_running_or_notify_cancel():
            return
        try:
            job.set_result(work())
        except Exception as error:  # noqa: BLE001  it belongs to whoever awaits the job
            job.set_exception(error)
