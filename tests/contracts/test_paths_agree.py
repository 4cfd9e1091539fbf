"""Every path through one engine in torch gives the same ids with a real model: whole, chunked,
cached, preempted, beside others or alone. Each path must also have been taken."""

from functools import cache

import pytest

from common.engine.engine import EngineLimits
from common.engine.runner_settings import RunnerSettings
from common.engine.torch_runner import TorchRunner
from tests.support.default_model import default_cache, default_model
from tests.support.engines import Bench, greedy
from tests.support.greedy import disagreements, reference_of
from tests.support.prompts import LENGTHS, token_prompt

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

VOCAB = 49_152
NEW_TOKENS = 8
AMPLE_SLOTS = 640
"""Room for all 40 prompts and their answers at once."""


def runner() -> TorchRunner:
    """One for each engine: it is bound to that engine's pool. All map the same weights."""
    settings = RunnerSettings(block_tokens=32, threads=1)
    return TorchRunner.load(default_model(), default_cache(), settings)


def served(
    bench: Bench, lengths: tuple[int, ...] = LENGTHS, name: str = "r", tokens: int = NEW_TOKENS
) -> list[list[int]]:
    params = greedy(tokens, ignore_eos=True)
    for length in lengths:
        bench.add(f"{name}{length}", token_prompt(length, VOCAB), params)
    bench.run()
    return [bench.output(f"{name}{length}") for length in lengths]


def bench_of(slots: int = AMPLE_SLOTS, step_tokens: int = 512) -> Bench:
    return Bench(slots, limits=EngineLimits(step_tokens, max_sequences=64), runner=runner())


@cache
def whole() -> tuple[Bench, list[list[int]]]:
    """Prompts in one piece each where the budget of 2,048 allows; the cache stays warm."""
    bench = bench_of(step_tokens=2048)
    return bench, served(bench)


def assert_like_whole(lengths: tuple[int, ...], answers: list[list[int]]) -> None:
    """Near-ties may part: sums of another order round differently in float32."""
    expected = dict(zip(LENGTHS, whole()[1], strict=True))
    reference = reference_of(default_model(), default_cache())
    prompts = [token_prompt(length, VOCAB) for length in lengths]
    wanted = [expected[length] for length in lengths]
    assert disagreements(reference, prompts, wanted, answers) == {}


SHORT = tuple(length for length in LENGTHS if length <= 129)


@pytest.mark.parametrize(
    ("chunk", "lengths"),
    [
        (512, LENGTHS),
        # Every step reads all weights: sixteen rows a step of every prompt take a minute.
        (64, SHORT),
        (16, SHORT),
        pytest.param(64, LENGTHS, marks=pytest.mark.slow),
        pytest.param(16, LENGTHS, marks=pytest.mark.slow),
    ],
)
def test_chunked_prompts_give_the_same_ids(chunk: int, lengths: tuple[int, ...]) -> None:
    bench = bench_of(step_tokens=chunk)
    assert_like_whole(lengths, served(bench, lengths))
    longest = max(lengths)
    assert bench.done(f"r{longest}").ledger.prefill_chunks >= longest / chunk


def test_a_warm_prefix_gives_the_same_ids() -> None:
    bench, _ = whole()
    assert_like_whole(LENGTHS, served(bench, name="again"))
    for length in LENGTHS:
        ledger = bench.done(f"again{length}").ledger
        assert ledger.cached_device_tokens == (length - 1) // 32 * 32
        assert ledger.prefill_computed_tokens == length - ledger.cached_device_tokens


@pytest.mark.parametrize(
    ("lengths", "slots", "tokens"),
    [
        # Every answer needs a block more than its prompt, and there is room for few of them.
        (SHORT, sum(-(-length // 32) for length in SHORT) + 4, 33),
        pytest.param(LENGTHS, 150, 100, marks=pytest.mark.slow),
    ],
)
def test_preempted_sequences_give_the_same_ids(
    lengths: tuple[int, ...], slots: int, tokens: int
) -> None:
    bench = bench_of(slots)
    answers = served(bench, lengths, tokens=tokens)
    assert_like_whole(lengths, [ids[:NEW_TOKENS] for ids in answers])
    preempted = [bench.done(f"r{length}").ledger.preemptions for length in lengths]
    assert sum(preempted) > 0


def test_alone_or_beside_others_gives_the_same_ids() -> None:
    for length in (1, 33, 129):
        assert_like_whole((length,), served(bench_of(), (length,)))
