"""A service without a job, as a real process: `python -m tests.support.fake_service`.

Its behaviour is chosen by FAKE_* variables, so that tests of run() and of the supervisor see real
signals, real exits and real admin ports. It appends what happens to it to FAKE_JOURNAL.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path

from common.domain.ids import ProcessId
from common.runtime import metrics
from common.runtime.admin import AdminAction
from common.runtime.service import run
from common.runtime.settings import ProcessSettings
from common.runtime.tasks import Tasks


class FakeSettings(ProcessSettings):
    """Only what every process has."""


class FakeService:
    def __init__(self, me: ProcessId, settings: FakeSettings) -> None:
        self.registry = metrics.new_registry()
        self._me = me
        self._settings = settings
        self._tasks = Tasks()
        self._started = 0.0

    async def start(self) -> None:
        self._note("start")
        self._started = time.monotonic()
        await asyncio.sleep(self._seconds("FAKE_START_S"))
        if os.environ.get("FAKE_CRASH") in ("start", self._settings.name):
            raise RuntimeError("told to crash in start")
        if os.environ.get("FAKE_CRASH") == "task":
            self._tasks.spawn(self._crash(), "crasher")

    def ready(self) -> bool:
        return time.monotonic() - self._started >= self._seconds("FAKE_READY_S")

    def status(self) -> dict[str, object]:
        return {"running": 1, "waiting": 2, "blocks_used": 3, "blocks_total": 9, "mood": "fine"}

    async def drain(self) -> None:
        self._note("drain")
        await asyncio.sleep(self._seconds("FAKE_DRAIN_S"))

    async def stop(self) -> None:
        await self._tasks.cancel_all()
        self._note("stop")

    def routes(self) -> Mapping[str, AdminAction]:
        return {"POST /crash": self._crash_by_task, "GET /echo": self._echo}

    async def _echo(self) -> Mapping[str, object]:
        return {"name": self._me.name}

    async def _crash_by_task(self) -> Mapping[str, object]:
        self._tasks.spawn(self._crash(), "crasher")
        return {}

    async def _crash(self) -> None:
        raise RuntimeError("told to crash in a task")

    def _seconds(self, variable: str) -> float:
        return float(os.environ.get(variable, "0"))

    def _note(self, what: str) -> None:
        if journal := os.environ.get("FAKE_JOURNAL"):
            with Path(journal).open("a") as file:
                file.write(f"{self._settings.name} {what}\n")


def main() -> None:
    settings = FakeSettings()
    run(lambda me: FakeService(me, settings), settings)


if __name__ == "__main__":
    main()
