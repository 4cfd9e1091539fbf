"""What the torch runner promises beside the logits, which tests/contracts/test_archs.py checks."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from common.checkpoint.errors import CheckpointError
from common.checkpoint.prepared import prepare
from common.domain.errors import ServingError
from common.domain.sampling import SamplingParams
from common.engine.runner import Draw, Runner
from common.engine.runner_settings import RunnerSettings
from common.engine.torch_runner import TorchRunner
from tests.support.default_model import default_cache, default_model
from tests.support.paged import PagedBench, torch_bench
from tests.support.reference import Reference, Shape, rope_frequencies
from tests.support.tiny_models import CONTEXT_TOKENS, VOCAB, tiny_llama

GREEDY = SamplingParams(seed=0, max_tokens=8, temperature=0.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("llama"), 1)


@pytest.fixture
def bench(folder: Path, tmp_path: Path) -> PagedBench:
    return torch_bench(folder, tmp_path)


def tokens_of(count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCAB, count).tolist()


def test_it_is_a_runner_of_the_models_shape(bench: PagedBench, folder: Path) -> None:
    runner: Runner = bench.runner
    assert (runner.vocab, runner.context_tokens) == (VOCAB, CONTEXT_TOKENS)
    assert runner.eos_token_ids == (2,)
    assert runner.layout.shape == (2, 2, 2, 32, 16)
    assert runner.layout.dtype == "float32"


def test_the_weights_digest_is_that_of_the_prepared_file(folder: Path, tmp_path: Path) -> None:
    runner = TorchRunner.load(folder, tmp_path, RunnerSettings())
    assert runner.weights_digest == prepare(folder, "fp32", tmp_path).weights_digest


def test_another_arithmetic_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="bf16"):
        TorchRunner.load(folder, tmp_path, RunnerSettings(arithmetic="bf16"))


def test_a_step_draws_what_the_logits_of_its_rows_say(bench: PagedBench) -> None:
    prompts = [tokens_of(40, 1), tokens_of(3, 2)]
    batch = bench.batch([(bench.sequence(64), prompts[0]), (bench.sequence(64), prompts[1])])
    logits = bench.runner.forward(batch)
    draws = [Draw(1, GREEDY, 0, prompts[1], []), Draw(0, GREEDY, 0, prompts[0], [])]
    wanted = replace(batch, rows=np.array([39, 42]), draws=draws)
    drawn = [one.token for one in bench.runner.step(wanted)]
    assert drawn == [int(logits[42].argmax()), int(logits[39].argmax())]


def test_a_chunk_nobody_draws_from_writes_the_same_keys_and_values(bench: PagedBench) -> None:
    tokens = tokens_of(64)
    silent, drawn = bench.sequence(64), bench.sequence(64)
    batch = bench.batch([(silent, tokens)])
    assert bench.runner.step(replace(batch, rows=batch.rows[:0])) == []
    bench.forward([(drawn, tokens)])
    for left, right in zip(silent.table, drawn.table, strict=True):
        assert np.array_equal(bench.block(left), bench.block(right))


def test_keys_and_values_lie_in_the_slots_of_the_table_and_nowhere_else(bench: PagedBench) -> None:
    cached = bench.sequence(64)
    bench.forward([(cached, tokens_of(40))])
    first, second = (bench.block(slot) for slot in cached.table)
    assert np.isfinite(first).all()
    assert np.isfinite(second[:, :, :, :8]).all()
    assert np.isnan(second[:, :, :, 8:]).all()
    others = set(range(96)) - set(cached.table.tolist())
    assert all(np.isnan(bench.block(slot)).all() for slot in others)


def test_bytes_beside_the_blocks_are_left_alone(bench: PagedBench) -> None:
    bench.forward([(bench.sequence(64), tokens_of(40))])
    block = bench.runner.layout.block_bytes
    beside = [
        bench.memory[s * bench.slot_bytes + block : (s + 1) * bench.slot_bytes] for s in range(96)
    ]
    assert set().union(*beside) == {0xFF}


def test_a_shared_prefix_gives_the_same_logits_as_an_own_one(
    bench: PagedBench, folder: Path
) -> None:
    prefix, tail = tokens_of(64, 1), tokens_of(11, 2)
    owner, reader = bench.sequence(64), bench.sequence(75)
    bench.forward([(owner, prefix)])
    reader.table[:2] = owner.table
    reader.tokens += prefix
    logits = bench.forward([(reader, tail)])
    expected = Reference.from_folder(folder).logits(prefix + tail)[64:]
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)


def test_a_copied_block_lets_choices_diverge(bench: PagedBench, folder: Path) -> None:
    prompt = tokens_of(40, 1)
    left = bench.sequence(64)
    bench.forward([(left, prompt)])
    right = bench.sequence(64)
    bench.runner.copy_block(int(left.table[1]), int(right.table[1]))
    right.table[0] = left.table[0]
    right.tokens += prompt
    logits = bench.forward([(left, [7, 8]), (right, [9, 10])])
    reference = Reference.from_folder(folder)
    expected = torch.cat([reference.logits([*prompt, *more])[40:] for more in ([7, 8], [9, 10])])
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)


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
    assert torch.allclose(logits[0], logits[1], atol=1e-5)


def test_a_runner_without_a_pool_says_so(folder: Path, tmp_path: Path) -> None:
    runner = TorchRunner.load(folder, tmp_path, RunnerSettings())
    with pytest.raises(ServingError, match="bound"):
        runner.copy_block(0, 1)


def test_a_second_engine_cannot_move_the_first_ones_pool(bench: PagedBench) -> None:
    with pytest.raises(ServingError, match="already"):
        bench.runner.bind(memoryview(bench.memory), 1, bench.slot_bytes)


def test_logits_carry_no_gradient_and_threads_are_set(bench: PagedBench) -> None:
    logits = bench.forward([(bench.sequence(32), tokens_of(4))])
    assert logits.is_inference()
    assert torch.get_num_threads() == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_device_gives_the_logits_of_the_reference(folder: Path, tmp_path: Path) -> None:
    bench = torch_bench(folder, tmp_path, device="cuda")
    prompt = tokens_of(70)
    cached = bench.sequence(96)
    logits = [bench.forward([(cached, prompt[:50])]), bench.forward([(cached, prompt[50:])])]
    expected = Reference.from_folder(folder).logits(prompt)
    torch.testing.assert_close(torch.cat(logits).cpu(), expected, atol=1e-3, rtol=1e-3)
    assert np.isnan(bench.block(cached.table[0])).all()
    bench.runner.to_host(cached.table.tolist())
    assert np.isfinite(bench.block(cached.table[0])).all()


@pytest.mark.slow
def test_the_default_model_gives_the_logits_of_the_reference() -> None:
    path, cache = default_model(), default_cache()
    prepared = prepare(path, "fp32", cache)
    config = prepared.config
    rope = {"rope_type": "default", "rope_theta": config.rope_theta}
    shape = Shape(
        layers=config.layers,
        heads=config.heads,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        eps=config.rms_norm_eps,
        frequencies=rope_frequencies(rope, config.head_dim),
    )
    tokens = np.random.default_rng(0).integers(0, config.vocab, 300).tolist()
    bench = torch_bench(path, cache)
    cached = bench.sequence(300)
    logits = torch.cat(
        [bench.forward([(cached, tokens[:200])]), bench.forward([(cached, tokens[200:])])]
    )
    expected = Reference(shape, prepared.weights).logits(tokens)
    torch.testing.assert_close(logits, expected, atol=2e-3, rtol=1e-4)
