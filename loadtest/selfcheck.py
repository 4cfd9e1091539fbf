"""What the harness itself can do here: streams against a server that knows when it wrote what.

The server has the machine's other cores, this process one. What the client saw later than the
server wrote, and gaps it saw that the server did not make, are the harness's own.
"""

import asyncio
import math
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadtest.client import Client, open_session, served_model
from loadtest.drive import Drive
from loadtest.errors import LoadTestError
from loadtest.metrics import lag_ms
from loadtest.pacing_server import HOST
from loadtest.plan import Plan
from loadtest.record import Outcome, Record
from loadtest.run import LEAD_S, RunClock, heap_left_alone
from loadtest.scenario import Load, Request
from loadtest.writer import WordWriter

Milliseconds = npt.NDArray[np.float64]
START_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """Milliseconds. `seen` is the client's side of a gap, `made` the server's."""

    streams: int
    chunks_s: float
    cpu_share: float
    """CPU seconds a second, of one core."""
    cpu_us_a_chunk: float
    lag_p99_ms: float
    delay_p50_ms: float
    delay_p99_ms: float
    """From the server's write to the client's read."""
    itl_seen_p99_ms: float
    itl_made_p99_ms: float

    def sentences(self) -> list[str]:
        return [
            f"{self.streams} streams, {self.chunks_s:,.0f} chunks/s: {self.cpu_share:.0%} of one "
            f"core, {self.cpu_us_a_chunk:.0f} us a chunk",
            f"requests were sent late by {self.lag_p99_ms:.1f} ms (P99)",
            f"chunks were read {self.delay_p50_ms:.2f} ms after they were written (P50), "
            f"{self.delay_p99_ms:.1f} ms (P99)",
            f"ITL P99: {self.itl_seen_p99_ms:.1f} ms here, {self.itl_made_p99_ms:.1f} ms by the "
            "server's own clock",
        ]


async def self_check(streams: int, rate: float, tokens: int) -> SelfCheck:
    """So many streams at a time, each of `tokens` at `rate` a second, three times over. Raises
    LoadTestError."""
    if streams < 1 or not 0 < rate < math.inf or tokens < 2:
        raise LoadTestError("a check needs a stream, a pace above 0, and 2 tokens for a gap")
    cores = sorted(os.sched_getaffinity(0))
    async with _pacing_server(rate, cores[1:] or cores) as url:
        os.sched_setaffinity(0, cores[:1])
        try:
            return await _measured(url, streams, tokens, tokens / rate)
        finally:
            os.sched_setaffinity(0, cores)


async def _measured(url: str, streams: int, tokens: int, seconds: float) -> SelfCheck:
    load = Load.model_validate(
        {
            "workload": {
                "kind": "synthetic",
                "prompt_tokens": {"kind": "fixed", "tokens": 32},
                "output_tokens": {"kind": "fixed", "tokens": tokens},
            },
            "arrivals": {"kind": "users", "users": streams, "stagger_s": seconds / 4},
            "sessions": 3 * streams,
        }
    )
    plan = Plan.made([load], seed=1, writer=WordWriter())
    async with open_session(url) as session:
        model = await served_model(session)
        counted, clock = _Counter(), RunClock()
        client = Client(session, model, Request(), clock, counted.content)
        drive = Drive(client, clock, counted, "check")
        async with heap_left_alone():
            clock.start(LEAD_S)
            cpu_s = time.process_time()
            await drive.run(plan)
            cpu_s = time.process_time() - cpu_s
    return summed_up(drive.records, streams, counted.chunks, cpu_s, clock.zero_s)


def summed_up(
    records: Sequence[Record], streams: int, chunks: int, cpu_s: float, origin: float
) -> SelfCheck:
    """`origin`: the client's zero on the clock that both share."""
    wrong = [record for record in records if record.outcome is not Outcome.FINISHED]
    if wrong:
        raise LoadTestError(f"{len(wrong)} streams did not finish: {wrong[0].error}")
    seen = [np.asarray(record.chunks_s) for record in records]
    made = [np.asarray(record.server["written_s"], dtype=float) - origin for record in records]
    delays = 1e3 * np.concatenate([s - m for s, m in zip(seen, made, strict=True)])
    duration_s = max(r.ended_s for r in records) - min(r.sent_s for r in records)
    return SelfCheck(
        streams=streams,
        chunks_s=chunks / duration_s,
        cpu_share=cpu_s / duration_s,
        cpu_us_a_chunk=cpu_s / chunks * 1e6,
        lag_p99_ms=float(np.percentile([lag_ms(record) for record in records], 99)),
        delay_p50_ms=float(np.percentile(delays, 50)),
        delay_p99_ms=float(np.percentile(delays, 99)),
        itl_seen_p99_ms=_gap_p99_ms(seen),
        itl_made_p99_ms=_gap_p99_ms(made),
    )


def _gap_p99_ms(moments: Sequence[Milliseconds]) -> float:
    gaps = np.concatenate([np.diff(one) for one in moments])
    return float(np.percentile(gaps, 99)) * 1e3


class _Counter:
    """A progress that nobody looks at."""

    def __init__(self) -> None:
        self.chunks = 0

    def content(self) -> None:
        self.chunks += 1

    def sent(self, load: str) -> None:
        pass

    def ended(self, record: Record) -> None:
        pass


@asynccontextmanager
async def _pacing_server(rate: float, cores: Sequence[int]) -> AsyncIterator[str]:
    """A process of its own on these cores, for as long as it is wanted."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "loadtest.pacing_server", str(port), str(rate),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    started = b""
    try:
        os.sched_setaffinity(process.pid, cores)
        assert process.stdout is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(START_LIMIT_S):
                started = await process.stdout.readline()
        if not started:
            raise LoadTestError("the pacing server did not start")
        yield f"http://{HOST}:{port}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
