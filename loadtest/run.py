"""One measurement: a server is warmed up, loaded, watched and struck, and everything seen is kept.

The only place where the client, the drive, the server's metrics, the faults and the terminal come
together. One clock serves them all: seconds since the run began, negative before.
"""

import gc
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

from loadtest.client import Client, open_session, served_model
from loadtest.cluster import Cluster
from loadtest.drive import Drive
from loadtest.errors import LoadTestError
from loadtest.faults import check_faults, strike
from loadtest.measurement import Mark, Measurement
from loadtest.plan import Plan, warmup_sessions
from loadtest.progress import Progress
from loadtest.scenario import Scenario
from loadtest.server_watch import Watched, watch
from loadtest.writer import Writer

LEAD_S = 0.1
"""From the moment everything is ready to the first one on the schedule."""

Show = Callable[[Progress, Callable[[], float]], AbstractAsyncContextManager[None]]
"""Shows progress while the block runs, given the run's clock."""


@dataclass(frozen=True, slots=True)
class Server:
    """What is measured."""

    name: str
    """Of a comparison's side, or the address."""
    url: str
    model: str = ""
    """'' asks the server which one it serves."""
    api_key: str = field(default="", repr=False)
    cluster: Cluster | None = None
    """Where it is one of ours: then its processes can be watched and struck."""


class RunClock:
    """Seconds since `start`. Of the machine's clock: that of uvloop counts milliseconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._time = now
        self.zero_s = now()
        """On the machine's clock."""

    def start(self, after_s: float) -> None:
        """From now on zero is so many seconds away."""
        self.zero_s = self._time() + after_s

    def __call__(self) -> float:
        return self._time() - self.zero_s


@asynccontextmanager
async def heap_left_alone() -> AsyncIterator[None]:
    """What lives now lives on while the block runs: the collector need not look at it while
    streams run."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def measure_server(
    server: Server,
    scenario: Scenario,
    seed: int,
    keep: Callable[[Measurement], None],
    *,
    writer: Writer,
    show: Show,
) -> None:
    """Keeps what was measured, also when it is broken off after a request has ended. Raises
    LoadTestError when nothing can be measured; what the server does wrong is no error but stands in
    the records."""
    check_faults(scenario.faults, server.cluster)
    plan = Plan.made(scenario.loads, seed, writer)
    progress = Progress(f"{scenario.name} on {server.name}", plan.expected, plan.last_s)
    clock, name = RunClock(), secrets.token_hex(4)
    async with open_session(server.url, server.api_key) as session:
        model = server.model or await served_model(session)
        client = Client(session, model, scenario.request, clock, progress.chunk)
        first = scenario.loads[0]
        warmup = warmup_sessions(first, seed, scenario.warmup, writer)
        await Drive(client, clock, Progress("warm-up", {}), name).warm_up(first.name, warmup)
        drive = Drive(client, clock, progress, name)
        watched, marks, whole = Watched(), list[Mark](), False
        try:
            async with (
                watch(server.url, server.cluster, session) as watched,
                heap_left_alone(),
            ):
                clock.start(LEAD_S)
                async with (
                    strike(scenario.faults, server.cluster, clock) as marks,
                    show(progress, clock),
                ):
                    await drive.run(plan)
            whole = True
        finally:
            if any(record.counts for record in drive.records):
                keep(
                    Measurement(
                        side=server.name,
                        seed=seed,
                        targets=scenario.targets,
                        records=drive.records,
                        server=watched.figures(),
                        marks=tuple(marks),
                        broken_off=not whole,
                    )
                )
    if not drive.records:
        raise LoadTestError(f"{scenario.name}: no load had a session to send")
