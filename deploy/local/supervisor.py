"""The supervisor: starts the processes of a plan stage by stage, keeps them running, stops them.

`python -m deploy.local.supervisor RUN_FOLDER`, started by `up` in a session of its own. It
decides nothing about serving: a dead process comes back, and its peers find out by themselves. On
SIGTERM it drains in the order in which work flows, and leaves no process and no socket behind.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path

import aiohttp
import structlog

from common.runtime import logs
from deploy.local.child import Child
from deploy.local.folders import Folders
from deploy.local.identity import Identity, identify
from deploy.local.plan import DRAIN_ORDER, STAGES, ProcessSpec, Stage
from deploy.local.run_plan import RunPlan, read_run_plan
from deploy.local.state import ClusterState, Phase, ProcessState, write_state

log = structlog.get_logger()


class StartFailed(Exception):
    def __init__(self, process: str, message: str) -> None:
        super().__init__(message)
        self.process = process


class Supervisor:
    def __init__(
        self, folders: Folders, plan: RunPlan, me: Identity, session: aiohttp.ClientSession
    ) -> None:
        self._folders = folders
        self._plan = plan
        self._me = me
        self._session = session
        self._phase = Phase.STARTING
        self._failure = StartFailed("", "")
        self._children: dict[Child, asyncio.Task[None]] = {}

    async def run(self, stop: asyncio.Event) -> bool:
        """Until `stop` is set. False: it never got to serve, and why stands in the state file."""
        self._publish()
        try:
            if await _unless(stop, self._start()):
                self._enter(Phase.READY)
                await stop.wait()
            self._enter(Phase.STOPPING)
        except StartFailed as failure:
            log.error("start_failed", name=failure.process, reason=str(failure))
            self._failure = failure
        await self._stop()
        self._folders.remove_sockets()
        self._folders.plan.unlink(missing_ok=True)
        if self._failure.process:
            self._enter(Phase.FAILED)
            return False
        self._folders.state.unlink()
        return True

    async def _start(self) -> None:
        for stage in Stage:
            specs = [spec for spec in self._plan.processes if STAGES[spec.role] is stage]
            children = [self._spawn(spec) for spec in specs]
            await asyncio.gather(*(self._until_ready(child) for child in children))

    def _spawn(self, spec: ProcessSpec) -> Child:
        child = Child(spec, self._folders.log(spec.name), self._is_ready, self._publish)
        running = asyncio.create_task(child.keep_running(), name=spec.name)
        running.add_done_callback(_die_of_failure)
        self._children[child] = running
        return child

    async def _until_ready(self, child: Child) -> None:
        limit_s = self._plan.start_limit_s
        ready, hopeless = (
            asyncio.create_task(event.wait()) for event in (child.was_ready, child.hopeless)
        )
        try:
            await asyncio.wait(
                {ready, hopeless}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not ready.done():
                raise StartFailed(
                    child.spec.name,
                    f"{child.spec.name} died {child.starts} times before it was ready"
                    if hopeless.done()
                    else f"{child.spec.name} was not ready within {limit_s:.0f} s",
                )
        finally:
            ready.cancel()
            hopeless.cancel()

    async def _is_ready(self, spec: ProcessSpec) -> bool:
        try:
            async with self._session.get(f"http://127.0.0.1:{spec.admin_port}/ready") as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def _stop(self) -> None:
        for roles in DRAIN_ORDER:
            await asyncio.gather(
                *(
                    child.stop(running)
                    for child, running in self._children.items()
                    if child.spec.role in roles
                )
            )

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        log.info("phase_entered", phase=phase)
        self._publish()

    def _publish(self) -> None:
        processes = tuple(
            ProcessState(
                name=child.spec.name,
                role=child.spec.role,
                admin_port=child.spec.admin_port,
                identity=child.identity,
                restarts=max(0, child.starts - 1),
                ready=child.ready,
            )
            for child in self._children
        )
        state = ClusterState(
            supervisor=self._me,
            topology=self._plan.topology,
            url=self._plan.url,
            phase=self._phase,
            processes=processes,
            error=str(self._failure),
            failed_process=self._failure.process,
        )
        write_state(self._folders.state, state)


def _die_of_failure(running: asyncio.Task[None]) -> None:
    """A bug of ours: end at once. The children die with us, and `up` or `down` cleans up."""
    if not running.cancelled() and (error := running.exception()) is not None:
        log.critical("supervisor_failed", error=str(error), exc_info=error)
        os._exit(1)


async def _unless(stop: asyncio.Event, coro: Coroutine[object, object, None]) -> bool:
    """Run `coro`; False when `stop` came first and cut it off."""
    work, alarm = asyncio.ensure_future(coro), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({work, alarm}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            await work
            return True
        return False
    finally:
        work.cancel()
        alarm.cancel()


async def supervise(folders: Folders, me: Identity) -> bool:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    timeout = aiohttp.ClientTimeout(total=1)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        return await Supervisor(folders, read_run_plan(folders.plan), me, session).run(stop)


def main(root: str) -> int:
    """The run lock is an open descriptor that we inherited; it is freed by our end."""
    logs.configure("info", "json", process="supervisor")
    me = identify(os.getpid())
    assert me is not None
    return 0 if asyncio.run(supervise(Folders(Path(root)), me)) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
