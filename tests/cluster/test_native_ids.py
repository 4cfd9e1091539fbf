"""A hundred prompts give the same ids however they are served, to the last one: no near-ties.

What the native runner says of each prompt alone is what every topology must answer while sixteen
requests run at a time, whatever was batched, chunked, handed over, or cached.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from common.engine.engine import EngineLimits
from common.engine.native_runner import NativeRunner
from common.engine.runner_settings import RunnerSettings
from common.kernels.library import Level, best_level
from tests.support.default_model import default_cache, default_model
from tests.support.engines import Bench, greedy
from tests.support.live import Live, live_cluster
from tests.support.prompts import LENGTHS, token_prompt

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        best_level() is Level.NONE, reason="no native kernels: the engine would be torch"
    ),
]

VOCAB = 49_152
NEW_TOKENS = 24
AT_ONCE = 16
PROMPTS = [token_prompt(length, VOCAB) for length in LENGTHS] + [
    token_prompt(1 + 37 * seed % 331, VOCAB, seed) for seed in range(1, 61)
]


@cache
def alone() -> list[list[int]]:
    """Each prompt by itself, whole, in an engine of this process."""
    runner = NativeRunner.load(
        default_model(), default_cache(), RunnerSettings(block_tokens=32, arithmetic="bf16")
    )
    bench = Bench(100, limits=EngineLimits(2048, max_sequences=1), runner=runner)
    answers = []
    for index, prompt in enumerate(PROMPTS):
        bench.add(str(index), prompt, greedy(NEW_TOKENS, ignore_eos=True))
        bench.run()
        bench.cache.reset()
        answers.append(bench.output(str(index)))
    return answers


def ask_all(live: Live) -> list[list[int]]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda prompt: live.complete(prompt, NEW_TOKENS), PROMPTS))
    return [answer["choices"][0]["token_ids"] for answer in answers]


@pytest.fixture(params=["1p1d", "aggregated", "2p2d", "1p1d-tcp"])
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    default_model()
    with live_cluster(tmp_path, request.param) as running:
        yield running


def test_a_hundred_prompts_beside_others_answer_as_alone(live: Live) -> None:
    first = ask_all(live)
    assert first == alone()
    # Once more: now most of every prompt comes from caches.
    assert ask_all(live)[::-1] == alone()[::-1]
    moved = [live.status(p.name)["bytes_moved"] for p in live.processes("decode")]
    if "tcp" in live.state.topology:
        assert all(each["near"] == 0 for each in moved)
        assert any(each["far"] > 0 for each in moved)
    elif live.processes("prefill"):
        assert any(each["near"] > 0 for each in moved)
