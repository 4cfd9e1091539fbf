"""What the native runner promises beside its bits, which a suite of tests/contracts compares.

Logits are held to the float32 reference with the tolerance of bf16: they may be as far from it as
the same reference is when it rounds what it multiplies to bf16, and half as much again.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from torch import Tensor

from common.domain.errors import ServingError
from common.domain.sampling import SamplingParams
from common.engine.native_runner import NativeRunner
from common.engine.runner import Draw, Runner
from common.engine.runner_settings import RunnerSettings
from common.kernels import library
from common.kernels.library import Level, NativeUnavailable, best_level
from common.kernels.packed_model import pack_model
from tests.support.native_bench import NEEDS_NATIVE, grouped_llama, native_bench, wide_qwen3
from tests.support.paged import SLOTS, PagedBench
from tests.support.reference import Reference
from tests.support.tiny_models import CONTEXT_TOKENS, VOCAB, tiny_llama, tiny_qwen3

GREEDY = SamplingParams(seed=0, max_tokens=8, temperature=0.0)
INT8_ERROR = 0.08
"""Root mean square of the error over that of the logits: weights of 8 bits in one scale a row."""


class RoundingReference(Reference):
    """With what a bf16 product multiplies: rounded weights, inputs, keys and values."""

    def _project(self, name: str, x: Tensor) -> Tensor:
        weight = rounded(self._tensors[f"{name}.weight"])
        bias = self._tensors.get(f"{name}.bias")
        product = rounded(x) @ weight.T
        return product if bias is None else product + bias


def rounded(values: Tensor) -> Tensor:
    return values.bfloat16().float()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return grouped_llama(tmp_path_factory.mktemp("runner") / "llama")


@pytest.fixture
def bench(folder: Path, tmp_path: Path) -> PagedBench:
    return native_bench(folder, tmp_path, RunnerSettings(arithmetic="bf16"))


def tokens_of(count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCAB, count).tolist()


def error(actual: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]) -> float:
    """Relative, root mean square."""
    return float(np.sqrt(np.mean((actual - expected) ** 2) / np.mean(expected**2)))


MODELS = {
    "llama": lambda folder: tiny_llama(folder, 1, head_dim=64, initializer_range=0.1),
    "qwen3": lambda folder: tiny_qwen3(folder, 2, head_dim=64, initializer_range=0.1),
    "grouped llama with biases": grouped_llama,
    "wide qwen3": wide_qwen3,
}


@NEEDS_NATIVE
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("arithmetic", ["bf16", "int8"])
def test_logits_are_those_of_the_reference(tmp_path: Path, model: str, arithmetic: str) -> None:
    path = MODELS[model](tmp_path / "model")
    tokens = tokens_of(150)
    bench = native_bench(path, tmp_path / "cache", RunnerSettings(arithmetic=arithmetic))
    logits = bench.forward([(bench.sequence(150), tokens)])
    assert logits.dtype == np.float32
    expected = Reference.from_folder(path).logits(tokens).numpy()
    rounding = RoundingReference.from_folder(path).logits(tokens).numpy()
    allowed = 1.5 * error(rounding, expected)
    assert (
        0.0 < error(logits, expected) < (allowed if arithmetic == "bf16" else INT8_ERROR + allowed)
    )


@NEEDS_NATIVE
def test_it_is_a_runner_of_the_models_shape(
    bench: PagedBench, folder: Path, tmp_path: Path
) -> None:
    runner: Runner = bench.runner
    assert (runner.vocab, runner.context_tokens) == (VOCAB, CONTEXT_TOKENS)
    assert runner.eos_token_ids == (2,)
    layout = runner.layout
    assert layout.shape == (2, 2, 2, 32, 64)
    assert (layout.dtype, layout.arrangement) == ("bfloat16", "LKHTD-VT")
    packed = pack_model(folder, "bf16", tmp_path).weights_digest
    # More than the packed file decides what a block holds: how the kernels compute from it.
    assert runner.weights_digest not in (packed, "")
    again = NativeRunner.load(folder, tmp_path, RunnerSettings(arithmetic="bf16"))
    assert runner.weights_digest == again.weights_digest
    assert isinstance(runner, NativeRunner)
    assert runner.level == best_level().name.lower()
    assert runner.weight_bytes > 0


@NEEDS_NATIVE
def test_a_step_draws_what_the_logits_of_its_rows_say(bench: PagedBench) -> None:
    prompts = [tokens_of(40, 1), tokens_of(3, 2)]
    batch = bench.batch([(bench.sequence(64), prompts[0]), (bench.sequence(64), prompts[1])])
    logits = bench.runner.forward(batch)
    logprobs = replace(GREEDY, logprobs=2)
    draws = [Draw(1, GREEDY, 0, prompts[1], []), Draw(0, logprobs, 0, prompts[0], [])]
    wanted = replace(batch, rows=np.array([39, 42]), draws=draws)
    drawn = bench.runner.step(wanted)
    assert [one.token for one in drawn] == [int(logits[42].argmax()), int(logits[39].argmax())]
    assert drawn[0].logprob is None
    assert drawn[1].logprob is not None
    assert [token for token, _ in drawn[1].top] == np.argsort(-logits[39])[:2].tolist()


@NEEDS_NATIVE
def test_a_chunk_nobody_draws_from_writes_the_same_keys_and_values(bench: PagedBench) -> None:
    tokens = tokens_of(64)
    silent, drawn = bench.sequence(64), bench.sequence(64)
    batch = bench.batch([(silent, tokens)])
    assert bench.runner.step(replace(batch, rows=batch.rows[:0])) == []
    bench.forward([(drawn, tokens)])
    for left, right in zip(silent.table, drawn.table, strict=True):
        assert np.array_equal(bench.block(left), bench.block(right))


@NEEDS_NATIVE
def test_keys_and_values_lie_in_the_slots_of_the_table_and_nowhere_else(bench: PagedBench) -> None:
    cached = bench.sequence(64)
    bench.forward([(cached, tokens_of(40))])
    first, second = (bench.block(slot) for slot in cached.table)
    assert np.isfinite(first).all()
    assert np.isfinite(second[:, :, :, :8]).all()
    others = set(range(SLOTS)) - set(cached.table.tolist())
    assert all(np.isnan(bench.block(slot)).all() for slot in others)


@NEEDS_NATIVE
def test_bytes_beside_the_blocks_are_left_alone(bench: PagedBench) -> None:
    bench.forward([(bench.sequence(64), tokens_of(40))])
    block = bench.runner.layout.block_bytes
    beside = [
        bench.memory[s * bench.slot_bytes + block : (s + 1) * bench.slot_bytes]
        for s in range(SLOTS)
    ]
    assert set().union(*beside) == {0xFF}


@NEEDS_NATIVE
def test_a_copied_block_lets_choices_diverge(bench: PagedBench) -> None:
    prompt = tokens_of(40, 1)
    alone = [bench.sequence(64) for _ in range(2)]
    expected = [
        bench.forward([(cached, [*prompt, *more])])[40:]
        for cached, more in zip(alone, ([7, 8], [9, 10]), strict=True)
    ]
    left, right = bench.sequence(64), bench.sequence(64)
    bench.forward([(left, prompt)])
    bench.runner.copy_block(int(left.table[1]), int(right.table[1]))
    right.table[0] = left.table[0]
    right.tokens += prompt
    logits = bench.forward([(left, [7, 8]), (right, [9, 10])])
    assert np.array_equal(logits, np.concatenate(expected))


@NEEDS_NATIVE
def test_it_takes_over_blocks_that_somebody_else_wrote(bench: PagedBench) -> None:
    prompt = tokens_of(64)
    ours, theirs = bench.sequence(96), bench.sequence(96)
    bench.forward([(ours, prompt)])
    for source, target in zip(ours.table[:2].tolist(), theirs.table[:2].tolist(), strict=True):
        size, block = bench.slot_bytes, bench.runner.layout.block_bytes
        data = bench.memory[source * size : source * size + block]
        bench.memory[target * size : target * size + block] = data
    bench.runner.to_device(theirs.table[:2].tolist())
    theirs.tokens += prompt
    logits = bench.forward([(ours, [5]), (theirs, [5])])
    assert np.array_equal(logits[0], logits[1])


@NEEDS_NATIVE
def test_a_runner_without_a_pool_says_so(folder: Path, tmp_path: Path) -> None:
    runner = NativeRunner.load(folder, tmp_path, RunnerSettings(arithmetic="bf16"))
    with pytest.raises(ServingError, match="bound"):
        runner.copy_block(0, 1)


@NEEDS_NATIVE
def test_a_second_engine_cannot_move_the_first_ones_pool(bench: PagedBench) -> None:
    with pytest.raises(ServingError, match="already"):
        bench.runner.bind(memoryview(bench.memory), 1, bench.slot_bytes)


@NEEDS_NATIVE
def test_a_pool_that_cannot_be_is_refused_and_one_that_can_is_taken(
    folder: Path, tmp_path: Path
) -> None:
    runner = NativeRunner.load(folder, tmp_path, RunnerSettings(arithmetic="bf16"))
    block = runner.layout.block_bytes
    with pytest.raises(ServingError, match=f"{block - 1} bytes holds no block of {block}"):
        runner.bind(memoryview(bytearray(4 * block)), 4, block - 1)
    with pytest.raises(ServingError, match=f"needs {4 * block} writable bytes"):
        runner.bind(memoryview(bytearray(4 * block - 1)), 4, block)
    with pytest.raises(ServingError, match="writable"):
        runner.bind(memoryview(bytes(4 * block)), 4, block)
    runner.bind(memoryview(bytearray(4 * block + 10)), 4, block)


@NEEDS_NATIVE
@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (RunnerSettings(device="cuda:0", arithmetic="bf16"), "on the CPU, not on cuda:0"),
        (RunnerSettings(arithmetic="bf16", level="amx"), "this CPU has AVX2 at most, not AMX"),
    ],
)
def test_what_it_cannot_do_is_refused_by_name(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: RunnerSettings,
    complaint: str,
) -> None:
    monkeypatch.setattr("common.engine.native_runner.best_level", lambda: Level.AVX2)
    with pytest.raises(NativeUnavailable, match=complaint):
        NativeRunner.load(folder, tmp_path, settings)
    assert not (tmp_path / "packed").exists()


@pytest.fixture
def nothing_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    library.load_library.cache_clear()
    monkeypatch.setattr(library, "built_library", lambda: tmp_path / "none.so")
    yield
    library.load_library.cache_clear()


@pytest.mark.usefixtures("nothing_built")
def test_without_a_build_it_says_so_before_it_packs(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NativeUnavailable, match="not built"):
        NativeRunner.load(folder, tmp_path, RunnerSettings(arithmetic="bf16"))
    assert not (tmp_path / "packed").exists()


@NEEDS_NATIVE
def test_its_counters_grow_with_what_it_does(bench: PagedBench) -> None:
    runner = bench.runner
    assert isinstance(runner, NativeRunner)
    before = sum(runner.counters().values())
    bench.forward([(bench.sequence(64), tokens_of(40))])
    assert sum(runner.counters().values()) > before == 0.0
