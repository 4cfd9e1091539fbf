"""Does a scenario's faults to the processes of a cluster of ours while the load runs.

Moments are on the run's clock. What was done and what was seen of it afterwards become marks of the
measurement. A process that was stopped goes on when the block is left, however it is left.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from deploy.local.identity import Identity, send
from deploy.local.state import ClusterState, ProcessState
from loadtest.errors import LoadTestError
from loadtest.measurement import Mark
from loadtest.scenario import Fault

POLL_S = 0.05
"""Between two looks at the state file; so exact is what is said of a process that came back."""
_SIGNALS = {"kill": signal.SIGKILL, "pause": signal.SIGSTOP, "drain": signal.SIGTERM}


class Runs(Protocol):
    """A `Cluster`."""

    def state(self) -> ClusterState: ...


def check_faults(faults: Sequence[Fault], cluster: Runs | None) -> None:
    """Raises LoadTestError when they cannot be done to what is measured."""
    if not faults:
        return
    if cluster is None:
        raise LoadTestError(
            "the scenario has faults, and they can only be done to a cluster of ours on this"
            " machine: give it sides, or start one with make up"
        )
    state = cluster.state()
    for fault in faults:
        if not aimed_at(fault.process, state):
            there = ", ".join(process.name for process in state.processes)
            raise LoadTestError(
                f"no process {fault.process!r} to {fault.action}; there are: {there}"
            )


def aimed_at(process: str, state: ClusterState) -> list[ProcessState]:
    """By name or role."""
    return [one for one in state.processes if process in (one.name, one.role)]


@dataclass(slots=True)
class Recovery:
    """What comes of processes that were killed or drained. Pure."""

    action: str
    at_s: float
    waiting: dict[str, Identity]
    """Not back yet, and who each was before."""
    _ended: set[str] = field(default_factory=set)

    def see(self, state: ClusterState, now_s: float) -> list[str]:
        """What has changed since the last look, for marks."""
        after = f"{now_s - self.at_s:.1f} s"
        found = []
        for process in state.processes:
            name, before = process.name, self.waiting.get(process.name)
            if before is None or process.identity == before:
                continue
            if self.action == "drain" and name not in self._ended:
                self._ended.add(name)
                found.append(f"{name} has drained and ended after {after}")
            if process.identity is not None and process.ready:
                del self.waiting[name]
                found.append(f"{name} is ready again after {after}")
        return found


@asynccontextmanager
async def strike(
    faults: Sequence[Fault], cluster: Runs | None, now: Callable[[], float]
) -> AsyncIterator[list[Mark]]:
    """While the block runs. `now`: seconds since the run began, also negative. The marks grow, and
    are complete and in order when the block has been left. Raises LoadTestError, before the block
    where the faults cannot be done, after it where the cluster ended on the way."""
    check_faults(faults, cluster)
    if cluster is None:
        yield []
        return
    striker = _Striker(cluster, now)
    tasks = [asyncio.create_task(striker.carry_out(fault)) for fault in faults]
    try:
        yield striker.marks
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        striker.marks.sort(key=lambda mark: mark.at_s)
    for end in ends:
        if isinstance(end, Exception):
            raise end


class _Striker:
    def __init__(self, cluster: Runs, now: Callable[[], float]) -> None:
        self._cluster = cluster
        self._now = now
        self.marks: list[Mark] = []

    async def carry_out(self, fault: Fault) -> None:
        """Cancelled when the run is over."""
        try:
            await self._until(fault.at_s)
        except asyncio.CancelledError:
            self._mark(f"over before {fault.action} {fault.process} at {fault.at_s:g} s")
            raise
        struck = self._hit(fault)
        if fault.action == "pause":
            await self._resume(struck, fault.at_s + fault.seconds)
        else:
            await self._watch(Recovery(fault.action, self._now(), struck))

    def _hit(self, fault: Fault) -> dict[str, Identity]:
        """Those that the signal reached, who are others than a moment ago if they died since."""
        struck = {}
        for process in aimed_at(fault.process, self._cluster.state()):
            if process.identity is not None and send(process.identity, _SIGNALS[fault.action]):
                struck[process.name] = process.identity
                self._mark(f"{fault.action} {process.name}")
            else:
                self._mark(f"{process.name} was not running, so no {fault.action}")
        return struck

    async def _resume(self, stopped: dict[str, Identity], at_s: float) -> None:
        try:
            await self._until(at_s)
        finally:
            for name, identity in stopped.items():
                alive = send(identity, signal.SIGCONT)
                self._mark(f"{name} goes on" if alive else f"{name} died while it was paused")

    async def _watch(self, recovery: Recovery) -> None:
        try:
            while recovery.waiting:
                await asyncio.sleep(POLL_S)
                now_s = self._now()
                for text in recovery.see(self._cluster.state(), now_s):
                    self._mark(text)
        except asyncio.CancelledError:
            for name in recovery.waiting:
                self._mark(f"{name} was not back when the run was over")
            raise

    async def _until(self, at_s: float) -> None:
        await asyncio.sleep(max(0.0, at_s - self._now()))

    def _mark(self, text: str) -> None:
        self.marks.append(Mark(self._now(), text))
