"""Native logits do not depend on how they were come by: compared for equality, never closeness.

Token by token, alone, on one thread, at the best level of the machine is what all else must equal:
chunks, verification, batches, prefixes that another sequence computed, a second computation after
preemption; with one and two threads, at every CPU level, with blocks of every size, on a pool in
which all that nobody wrote is NaN.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from common.engine.engine import EngineLimits
from common.engine.native_runner import NativeRunner
from common.engine.runner_settings import RunnerSettings
from tests.support.bits import Expected, Rig, Setup
from tests.support.default_model import default_cache, default_model
from tests.support.engines import Bench, greedy
from tests.support.native_bench import NEEDS_NATIVE, grouped_llama, wide_qwen3
from tests.support.prompts import token_prompt
from tests.support.tiny_models import VOCAB

pytestmark = NEEDS_NATIVE

ARITHMETICS = ("bf16", "int8")
TINY = {"llama": grouped_llama, "qwen3": wide_qwen3}
TINY_TEXTS = (300, 97)
TEXTS = (70, 33, 20)
"""Of the default model, of which 49,152 logits a token are compared."""
SLOW_TOKENS = 14
"""Of the default model at a level that is not the machine's best."""
TINY_SETUPS = (
    Setup(),
    Setup(threads=2),
    Setup(threads=2, block_tokens=16),
    Setup(block_tokens=64),
    Setup("avx512", 1, 32),
    Setup("avx512", 2, 16),
    Setup("avx2", 1, 64),
    Setup("avx2", 2, 32),
)
"""The best level of a machine is its AMX, or its AVX-512."""
SETUPS = (
    Setup(block_tokens=16),
    Setup(threads=2, block_tokens=64),
    Setup("avx512", 2),
    Setup("avx2", 1, 16),
)
RIGS = [
    *(
        (model, arithmetic, setup)
        for model in TINY
        for arithmetic in ARITHMETICS
        for setup in TINY_SETUPS
    ),
    *(("default", arithmetic, setup) for arithmetic in ARITHMETICS for setup in SETUPS),
]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Expected]:
    folder = tmp_path_factory.mktemp("models")

    @cache
    def path_of(model: str) -> Path:
        return TINY[model](folder / model)

    @cache
    def computed(model: str, arithmetic: str) -> Expected:
        if model == "default":
            texts = [token_prompt(length, 49_152) for length in TEXTS]
            return Expected.one_by_one(default_model(), default_cache(), arithmetic, texts)
        texts = [np.random.default_rng(n).integers(0, VOCAB, n).tolist() for n in TINY_TEXTS]
        return Expected.one_by_one(path_of(model), folder / "cache", arithmetic, texts)

    return computed


@pytest.fixture(scope="module", params=RIGS, ids=lambda rig: "-".join(map(str, rig)))
def loaded(request: pytest.FixtureRequest, expected: Callable[[str, str], Expected]) -> Rig:
    model, arithmetic, setup = request.param
    slow = model == "default" and setup.level != "best"
    return Rig(expected(model, arithmetic), setup, SLOW_TOKENS if slow else None)


@pytest.fixture
def rig(loaded: Rig) -> Rig:
    loaded.bench.wipe()
    return loaded


@pytest.mark.parametrize("chunk", [1, 16, 64, 256])
def test_chunks_of_any_size(rig: Rig, chunk: int) -> None:
    if chunk > rig.lengths[0]:
        pytest.skip("that is the whole of this text, which has a test")
    rig.finish(rig.stream(), [chunk])


def test_a_whole_prompt_in_one_piece(rig: Rig) -> None:
    for text, length in enumerate(rig.lengths):
        rig.step([(rig.stream(text), length)])


def test_verification_of_2_to_16_rows(rig: Rig) -> None:
    rig.finish(rig.stream(), [*range(2, 17)])
    rig.finish(rig.stream(1), [5, 16, 2])


@pytest.mark.parametrize("sequences", [2, 15, 33, 64])
def test_any_place_in_a_batch_of_any_size(rig: Rig, sequences: int) -> None:
    if rig.is_slow and sequences > 15:
        pytest.skip("the default model takes long at this level; the tiny ones have had it")
    chance = np.random.default_rng(sequences)
    texts = chance.integers(0, len(rig.lengths), sequences).tolist()
    streams = [rig.stream(text, rig.batch_tokens) for text in texts]
    longest = rig.batch_tokens - 12
    rig.step([(stream, int(chance.integers(1, longest + 1))) for stream in streams], last_only=True)
    for _ in range(3):
        chance.shuffle(streams)
        rig.step([(stream, int(chance.choice([1, 1, 1, 2, 4]))) for stream in streams])


def test_a_prefix_that_another_sequence_computed(rig: Rig) -> None:
    size, length = rig.setup.block_tokens, rig.lengths[0]
    owner = rig.stream()
    rig.advance(owner, length - 1, [length])
    whole = (length - 1) // size
    readers = [rig.stream(0, length) for _ in range(3)]
    for reader, blocks in zip(readers, (whole, whole, (whole + 1) // 2), strict=True):
        reader.share(owner, blocks, size)
    # Together in one batch with who wrote it, then each its own way.
    rig.step([(readers[0], 1), (owner, 1), (readers[1], 1), (readers[2], 1)])
    for reader in readers:
        rig.finish(reader, [7])


@pytest.mark.parametrize("readers", [2, 7, 13])
def test_readers_of_one_prefix_attend_to_it_together(rig: Rig, readers: int) -> None:
    """With as many rows, and as much of it, as each has: some of it is theirs alone."""
    size, length = rig.setup.block_tokens, rig.lengths[0]
    whole = (length - 12) // size
    if whole * size < 64:
        pytest.skip("this text is too short to be worth it")
    owner = rig.stream()
    rig.advance(owner, length - 12, [length])
    chance = np.random.default_rng(readers)
    streams = [rig.stream(0, length) for _ in range(readers)]
    for reader in streams:
        blocks = int(chance.integers(max(1, whole - 3), whole + 1))
        reader.share(owner, blocks, size)
        rig.advance(reader, length - 12 - blocks * size, [length])
    for _ in range(3):
        chance.shuffle(streams)
        rig.step([(stream, int(chance.choice([1, 1, 1, 2, 3]))) for stream in streams])


def test_a_second_computation_after_preemption(rig: Rig) -> None:
    length = rig.lengths[0]
    victim = rig.stream()
    rig.advance(victim, length * 2 // 3, [length // 2, 1])
    rig.bench.give_back(victim.cached)
    # Others leave their keys and values in its blocks.
    rig.finish(rig.stream(1), [16])
    again = rig.stream()
    rig.advance(again, length * 2 // 3, [length // 3])
    rig.finish(again, [1, 3])


@pytest.mark.parametrize("model", TINY)
@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_an_engine_that_runs_out_of_blocks_draws_the_same_tokens(
    expected: Callable[[str, str], Expected], model: str, arithmetic: str, temperature: float
) -> None:
    made = expected(model, arithmetic)

    def answers(slots: int, step_tokens: int, threads: int) -> tuple[list[list[int]], int]:
        settings = RunnerSettings(16, threads, arithmetic=arithmetic)
        runner = NativeRunner.load(made.path, made.cache, settings)
        bench = Bench(slots, limits=EngineLimits(step_tokens, 64), runner=runner)
        names = [f"r{length}" for length in (1, 16, 30, 47, 90)]
        for name in names:
            prompt = made.texts[0][: int(name[1:])]
            bench.add(name, prompt, greedy(40, ignore_eos=True, temperature=temperature))
        bench.run()
        preempted = sum(bench.done(name).ledger.preemptions for name in names)
        return [bench.output(name) for name in names], preempted

    ample, none = answers(64, 512, 1)
    scarce, some = answers(12, 32, 2)
    assert (none, some > 0) == (0, True)
    assert scarce == ample
