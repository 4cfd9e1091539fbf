import io
import json
import os
from collections.abc import Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from rich.console import Console

from common.engine.bench.peers.cases import Case
from deploy.local.errors import DeployError
from deploy.local.identity import identify
from deploy.local.overhead import (
    CLIENT,
    OUTPUT_TOKENS,
    PROMPT_TOKENS,
    Round,
    engine_alone,
    measure_overhead,
    sentence,
    shares_table,
)
from deploy.local.state import ClusterState, Phase, ProcessState

VOCAB = 500
Alone = Callable[[int, int], float]


def state_at(url: str) -> ClusterState:
    """One process: this one."""
    me = identify(os.getpid())
    assert me is not None
    process = ProcessState(
        name="decode-0", role="decode", admin_port=1, identity=me, restarts=0, ready=True
    )
    between_lives = process.model_copy(update={"name": "prefill-0", "identity": None})
    return ClusterState(
        supervisor=me,
        topology="t",
        url=url,
        phase=Phase.READY,
        processes=(process, between_lives),
    )


async def measured(
    alone: Alone, tokens: int = OUTPUT_TOKENS, status: int = 200
) -> tuple[list[Round], list[tuple[int, ...]]]:
    """Two rounds of three streams, and the prompts that were sent."""
    asked: list[tuple[int, ...]] = []

    async def complete(request: web.Request) -> web.Response:
        body = await request.json()
        assert (body["max_tokens"], body["ignore_eos"]) == (OUTPUT_TOKENS, True)
        asked.append(tuple(body["prompt"]))
        end = {"choices": [], "usage": {"completion_tokens": tokens}}
        usage = json.dumps(end, separators=(",", ":"))
        text = f'data: {{"choices":[]}}\n\ndata: {usage}\n\ndata: [DONE]\n\n'
        return web.Response(text=text, status=status)

    app = web.Application()
    app.router.add_post("/v1/completions", complete)
    async with TestServer(app) as server:
        state = state_at(str(server.make_url("")))
        return await measure_overhead(state, alone, VOCAB, streams=3, rounds=2), asked


async def test_rounds_alternate_and_no_prompt_comes_twice() -> None:
    alone_asked: list[tuple[int, int]] = []

    def alone(streams: int, seed: int) -> float:
        alone_asked.append((streams, seed))
        return 100.0

    rounds, asked = await measured(alone)
    assert len(rounds) == 2
    assert len(set(asked)) == len(asked) == 3 * 3, "the first round warms up"
    assert {len(prompt) for prompt in asked} == {PROMPT_TOKENS}
    assert [streams for streams, _ in alone_asked] == [3, 3, 3]
    assert len({seed for _, seed in alone_asked}) == 3
    for one in rounds:
        assert one.ratio == one.served_tokens_s / 100.0 > 0
        assert list(one.shares) == ["decode-0", CLIENT], "who has no process has no share"


async def test_a_refusal_or_a_short_answer_is_no_figure() -> None:
    with pytest.raises(DeployError, match="answered 503"):
        await measured(lambda streams, seed: 1.0, status=503)
    with pytest.raises(DeployError, match="after 7 of 128 tokens"):
        await measured(lambda streams, seed: 1.0, tokens=7)


def test_figures_are_medians_and_the_median_of_the_ratios() -> None:
    rounds = [
        Round(served, alone, {"decode-0": share})
        for served, alone, share in ((90, 100, 1.5), (40, 80, 1.7), (160, 200, 1.6))
    ]
    assert sentence(rounds, 16) == (
        "16 streams: 90 tokens/s served, 100 by the engine alone: 80% "
        "(medians of 3 rounds, in pairs)"
    )
    out = io.StringIO()
    Console(file=out, width=100).print(shares_table(rounds))
    (line,) = [line for line in out.getvalue().splitlines() if "decode-0" in line]
    assert line.split() == ["decode-0", "1.60"]


def test_the_engine_alone_gets_as_many_streams() -> None:
    asked: list[tuple[Case, int, int]] = []

    class Fake:
        def run(self, case: Case, seed: int, vocab: int) -> float:
            asked.append((case, seed, vocab))
            return 12.0

    assert engine_alone(Fake(), VOCAB)(16, 5) == 12.0
    assert asked == [(Case("streams", 16, output=OUTPUT_TOKENS), 5, VOCAB)]
