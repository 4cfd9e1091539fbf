"""What makes an app a process: `run()` gives it a loop, logs, an admin port, signals and an end.

Life: build -> start -> serve -> (SIGTERM or SIGINT) drain -> stop -> exit 0. The admin port answers
from before `start` until after `stop`: /live says that the loop turns, /ready whether to send work
here. A second signal cuts the drain short. Whatever nobody caught is logged as `process_failed` and
ends the process with 1 at once: a service in an unknown state must not go on, and its supervisor
starts another.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import NoReturn, Protocol

import structlog
import uvloop
from prometheus_client import CollectorRegistry

from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.runtime import logs
from common.runtime.admin import AdminAction, AdminServer, Phase
from common.runtime.parent import die_with_parent
from common.runtime.settings import ProcessSettings

DRAIN_LIMIT_S = 10.0
STOP_LIMIT_S = 3.0
log = structlog.get_logger()


class Service(Protocol):
    """An app as run() sees it. Built inside the running loop; start() binds its sockets."""

    @property
    def registry(self) -> CollectorRegistry:
        """Its metrics; see common.runtime.metrics.new_registry."""

    async def start(self) -> None: ...

    def ready(self) -> bool:
        """Can it do its work now, given its peers? Asked only while it is started."""

    def status(self) -> dict[str, object]:
        """JSON-able numbers for people, read by `make status`."""

    async def drain(self) -> None:
        """Take no new work and return when what runs has ended. Cancelled at the limit."""

    async def stop(self) -> None:
        """Release everything. Called after start(), whether drained or not."""

    def routes(self) -> Mapping[str, AdminAction]:
        """Further admin actions by method and path: {"POST /reset_prefix_cache": action}."""


def run(build: Callable[[ProcessId], Service], settings: ProcessSettings) -> None:
    """Returns when the service has stopped cleanly; otherwise the process ends here."""
    logs.configure(settings.log_level, settings.log_format, process=settings.name)
    if settings.supervisor_pid and not die_with_parent(settings.supervisor_pid):
        log.error("supervisor_gone", supervisor_pid=settings.supervisor_pid)
        raise SystemExit(1)
    # Drawn, not counted: two lives of a name never share a number, without a file that remembers.
    me = ProcessId(ProcessName(settings.name), Incarnation(secrets.randbits(63) | 1))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_live(build, settings, me))


async def _live(
    build: Callable[[ProcessId], Service], settings: ProcessSettings, me: ProcessId
) -> None:
    asyncio.get_running_loop().set_exception_handler(_on_loop_error)
    try:
        signals = _Signals()
        service = build(me)
        admin = AdminServer(service, me)
        if settings.admin_port:
            await admin.start(settings.admin_port)
        log.info("process_starting", incarnation=f"{me.incarnation:016x}", pid=os.getpid())
        if await signals.before(service.start()):
            admin.phase = Phase.SERVING
            log.info("process_started")
            await signals.first.wait()
            await _wind_down(service, admin, signals)
        await admin.stop()
        log.info("process_stopped")
    except Exception as error:  # noqa: BLE001  one of the five places where errors are caught
        _fail("run", error)


class _Signals:
    """SIGTERM and SIGINT: the first asks to stop, the second to hurry."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        (self.second if self.first.is_set() else self.first).set()

    async def before(self, coro: Coroutine[object, object, None]) -> bool:
        """Run `coro` unless the first signal comes before it ends. False: it was cut off."""
        return await _race(coro, self.first, limit_s=None)


async def _race(
    coro: Coroutine[object, object, None], event: asyncio.Event, limit_s: float | None
) -> bool:
    """True when `coro` ended by itself; its exception is raised."""
    work = asyncio.ensure_future(coro)
    alarm = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({work, alarm}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            await work
            return True
        return False
    finally:
        for task in (work, alarm):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await alarm


async def _wind_down(service: Service, admin: AdminServer, signals: _Signals) -> None:
    admin.phase = Phase.DRAINING
    log.info("process_draining")
    if not await _race(service.drain(), signals.second, DRAIN_LIMIT_S):
        log.warning("drain_cut_short", limit_s=DRAIN_LIMIT_S)
    await asyncio.wait_for(service.stop(), STOP_LIMIT_S)


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    message = str(context.get("message", ""))
    error = context.get("exception")
    if not isinstance(error, BaseException):
        log.warning("loop_complained", message=message)
    elif isinstance(error, OSError) and "transport" in context:
        # A peer's connection broke in an unusual way: its own business, not the process's.
        log.warning("transport_failed", message=message, error=str(error))
    else:
        _fail(message, error)


def _fail(where: str, error: BaseException) -> NoReturn:
    """Ends the process without unwinding: nothing after this point can be trusted to end."""
    log.critical("process_failed", where=where, error=str(error), exc_info=error)
    sys.stderr.flush()
    os._exit(1)
