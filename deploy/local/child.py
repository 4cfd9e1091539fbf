"""One supervised process and its successors: started, watched until ready, started again when dead.

The process is told our pid and asks the kernel to die with us, so no life of it outlasts a
supervisor that is killed.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import structlog

from common.runtime.settings import ENV_PREFIX
from deploy.local.backoff import Backoff
from deploy.local.identity import Identity, identify
from deploy.local.plan import ProcessSpec

READY_POLL_S = 0.05
KILL_AFTER_S = 15.0
STARTS_BEFORE_HOPELESS = 3
ROOT = Path(__file__).parents[2]
log = structlog.get_logger()

Probe = Callable[[ProcessSpec], Awaitable[bool]]
"""Does its /ready answer 200?"""


class Child:
    def __init__(
        self, spec: ProcessSpec, log_file: Path, probe: Probe, changed: Callable[[], None]
    ) -> None:
        self.spec = spec
        self.identity: Identity | None = None
        self.starts = 0
        self.ready = False
        self.was_ready = asyncio.Event()
        """Set once any life has been ready."""
        self.hopeless = asyncio.Event()
        """Set when several lives ended and none was ever ready."""
        self._log_file = log_file
        self._probe = probe
        self._changed = changed
        self._backoff = Backoff()
        self._stopping = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    async def keep_running(self) -> None:
        """Until stop()."""
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            started = loop.time()
            code = await self._one_life()
            if self._stopping.is_set():
                log.info("process_exited", name=self.spec.name, code=code)
                return
            wait_s = self._backoff.after(loop.time() - started)
            log.warning("process_died", name=self.spec.name, code=code, restart_in_s=wait_s)
            if self.starts >= STARTS_BEFORE_HOPELESS and not self.was_ready.is_set():
                self.hopeless.set()
            await _either(self._stopping, wait_s)

    async def _one_life(self) -> int:
        """Its exit status; negative for a signal."""
        with self._log_file.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                self.spec.module,
                cwd=ROOT,
                env=_environment(self.spec.env),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._process = process
        self.starts += 1
        self.identity = identify(process.pid)
        self._changed()
        log.info("process_spawned", name=self.spec.name, pid=process.pid, start=self.starts)
        if self._stopping.is_set():
            # stop() came while there was no process to tell.
            self._signal(signal.SIGTERM)
        watch = asyncio.create_task(self._watch_until_ready())
        code = await process.wait()
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch
        self._process = self.identity = None
        self.ready = False
        self._changed()
        return code

    async def _watch_until_ready(self) -> None:
        while True:
            if await self._probe(self.spec):
                break
            await asyncio.sleep(READY_POLL_S)
        self.ready = True
        self.was_ready.set()
        self._changed()
        log.info("process_ready", name=self.spec.name)

    async def stop(self, running: asyncio.Task[None]) -> None:
        """SIGTERM, then SIGKILL; returns when `running`, the task of keep_running, has ended."""
        self._stopping.set()
        self._signal(signal.SIGTERM)
        await asyncio.wait({running}, timeout=KILL_AFTER_S)
        if not running.done():
            log.warning("process_killed", name=self.spec.name, after_s=KILL_AFTER_S)
            self._signal(signal.SIGKILL)
        await running

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    """Ours without TWINFLEET_ variables (the plan took over those that count), plus its own."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(ENV_PREFIX)}
    return {**inherited, **own, f"{ENV_PREFIX}SUPERVISOR_PID": str(os.getpid())}


async def _either(event: asyncio.Event, limit_s: float) -> None:
    """Wait for the event, at most so long."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({waiting}, timeout=limit_s)
    waiting.cancel()
