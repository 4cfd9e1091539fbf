"""`overhead`: what of the engine's own throughput comes out of the API, and who used the cores.

The same streams go through the running cluster and through an engine alone, in turn, as often as
asked; while one works the other sleeps. Prompts are new in every round. The engine alone has as
many threads as the worker, so it says something about a cluster of one worker.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import aiohttp
from rich import box
from rich.table import Table

from common.engine.bench.peers.cases import Case
from common.engine.bench.workload import prompt_of
from deploy.local.errors import DeployError
from deploy.local.identity import cpu_seconds
from deploy.local.state import ClusterState

PROMPT_TOKENS = 64
OUTPUT_TOKENS = 128
CLIENT = "this client"
_LIMIT_S = 600.0

Alone = Callable[[int, int], float]
"""Tokens a second of so many streams, prompts from a seed."""


@dataclass(frozen=True, slots=True)
class Round:
    served_tokens_s: float
    alone_tokens_s: float
    shares: Mapping[str, float]
    """CPU seconds a second while serving, by process."""

    @property
    def ratio(self) -> float:
        return self.served_tokens_s / self.alone_tokens_s


class Runs(Protocol):
    """A `PeerProcess`."""

    def run(self, case: Case, seed: int, vocab: int) -> float | None: ...


def engine_alone(process: Runs, vocab: int) -> Alone:
    def run(streams: int, seed: int) -> float:
        rate = process.run(Case("streams", streams, output=OUTPUT_TOKENS), seed, vocab)
        assert rate is not None, "our own engine runs streams"
        return rate

    return run


async def measure_overhead(
    state: ClusterState, alone: Alone, vocab: int, streams: int, rounds: int
) -> list[Round]:
    """The first round warms both up and does not count."""
    timeout = aiohttp.ClientTimeout(total=_LIMIT_S)
    connector = aiohttp.TCPConnector(limit=0)
    seeds, done = count(time.time_ns() % 2**40), []
    async with aiohttp.ClientSession(state.url, timeout=timeout, connector=connector) as session:
        for _ in range(rounds + 1):
            prompts = [prompt_of(vocab, PROMPT_TOKENS, next(seeds)) for _ in range(streams)]
            before, start = dict(_cpu_seconds(state)), time.perf_counter()
            tokens = sum(await asyncio.gather(*(_answer(session, p) for p in prompts)))
            seconds = time.perf_counter() - start
            after = dict(_cpu_seconds(state))
            shares = {name: (after[name] - before[name]) / seconds for name in before}
            own = await asyncio.to_thread(alone, streams, next(seeds))
            done.append(Round(tokens / seconds, own, shares))
    return done[1:]


async def _answer(session: aiohttp.ClientSession, prompt: Sequence[int]) -> int:
    """One stream; its tokens as the server counted them."""
    body = {
        "prompt": list(prompt),
        "max_tokens": OUTPUT_TOKENS,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    tokens = 0
    async with session.post("/v1/completions", json=body) as reply:
        if reply.status != 200:
            raise DeployError(f"the gateway answered {reply.status}: {await reply.text()}")
        async for line in reply.content:
            # Only the last event is read: a client that parses all would take the engine's time.
            if line.startswith(b"data: {") and b'"usage":{' in line:
                tokens = int(json.loads(line[6:])["usage"]["completion_tokens"])
    if tokens != OUTPUT_TOKENS:
        raise DeployError(f"a stream ended after {tokens} of {OUTPUT_TOKENS} tokens")
    return tokens


def _cpu_seconds(state: ClusterState) -> Iterator[tuple[str, float]]:
    for process in state.processes:
        if process.identity is not None:
            yield process.name, cpu_seconds(process.identity)
    yield CLIENT, time.process_time()


def sentence(rounds: Sequence[Round], streams: int) -> str:
    served = statistics.median(one.served_tokens_s for one in rounds)
    alone = statistics.median(one.alone_tokens_s for one in rounds)
    ratio = statistics.median(one.ratio for one in rounds)
    return (
        f"{streams} streams: {served:.0f} tokens/s served, {alone:.0f} by the engine alone: "
        f"{ratio:.0%} (medians of {len(rounds)} rounds, in pairs)"
    )


def shares_table(rounds: Sequence[Round]) -> Table:
    """Medians."""
    table = Table(box=box.SIMPLE)
    table.add_column("process")
    table.add_column("CPU seconds a second", justify="right")
    for name in rounds[0].shares:
        table.add_row(name, f"{statistics.median(one.shares[name] for one in rounds):.2f}")
    return table
