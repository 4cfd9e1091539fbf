"""How much of the KV pool holds nothing while conversations of real lengths live.

Integrated by the pools themselves, step by step. Prompt and output lengths are those of the Azure
conversation trace of 2023 where it lies beside the checkout, undivided; else drawn with the same
mean, median and 90th percentile.
"""

import asyncio
import csv
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.support.live import ROOT, TOPOLOGIES, Live, live_cluster
from tests.support.streams import Streamed, mock_prompt, stream

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(150)]

TRACE = ROOT.parent / "shared/data/azure2023/AzureLLMInferenceTrace_conv.csv"
REQUESTS = 150
AT_ONCE = 60
CONTEXT = 8192
WASTE = 0.04


def lengths(count: int) -> list[tuple[int, int]]:
    """(prompt, output) tokens of each request."""
    drawn = _from(TRACE, count) if TRACE.exists() else _like_the_trace(count)
    return [(prompt, min(output, CONTEXT - prompt)) for prompt, output in drawn if prompt < CONTEXT]


def _from(trace: Path, count: int) -> list[tuple[int, int]]:
    with trace.open() as file:
        rows = [(int(r["ContextTokens"]), int(r["GeneratedTokens"])) for r in csv.DictReader(file)]
    return random.Random(1).sample([row for row in rows if min(row) > 0], count)


def _like_the_trace(count: int) -> list[tuple[int, int]]:
    """Log-normal around the median, with the spread that gives the 90th percentile."""
    draw = random.Random(1)

    def one(median: float, p90: float) -> int:
        return max(1, round(draw.lognormvariate(math.log(median), math.log(p90 / median) / 1.2816)))

    return [(min(one(1020, 2735), CONTEXT - 1), one(129, 424)) for _ in range(count)]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    topology = str(TOPOLOGIES / "mock-1p1d.toml")
    with live_cluster(tmp_path_factory.mktemp("run"), topology) as running:
        yield running


async def serve(live: Live, requests: list[tuple[int, int]]) -> list[Streamed]:
    turn = asyncio.Semaphore(AT_ONCE)
    timeout = aiohttp.ClientTimeout(total=140)
    connector = aiohttp.TCPConnector(limit=0)

    async def one(session: aiohttp.ClientSession, seed: int, prompt: int, output: int) -> Streamed:
        async with turn:
            asked = Streamed(mock_prompt(prompt, seed), output, 0.0)
            return await stream(session, asked)

    async with aiohttp.ClientSession(live.url, timeout=timeout, connector=connector) as session:
        return await asyncio.gather(
            *(one(session, seed, *request) for seed, request in enumerate(requests))
        )


async def test_at_most_four_percent_of_allocated_kv_is_empty(
    live: Live, record_property: Callable[[str, object], None]
) -> None:
    requests = lengths(REQUESTS)
    streams = await serve(live, requests)
    assert not [done.told() for done in streams if not done.exact]
    prompts, outputs = (sum(column) / len(requests) for column in zip(*requests, strict=True))
    record_property("mean_tokens", (round(prompts), round(outputs)))
    for worker in ("prefill-0", "decode-0"):
        status = live.status(worker)
        record_property(f"{worker} waste", status["kv_waste"])
        record_property(f"{worker} reserved and empty", status["kv_reserved_empty"])
        assert 0 < status["kv_waste"] <= WASTE
    live.wait_until_nothing_is_held(15)
