"""The whole system's greedy ids are those of a naive forward in the same arithmetic, float32.

Forty prompts at the lengths where systems break go through real processes with the real model.
"""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.default_model import default_cache, default_model
from tests.support.greedy import judge, reference_of
from tests.support.live import TOPOLOGIES, Json, Live, live_cluster
from tests.support.prompts import LENGTHS, token_prompt
from tests.support.tiny_models import VOCAB as TINY_VOCAB
from tests.support.tiny_models import tiny_llama, tiny_qwen3

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

TORCH = str(TOPOLOGIES / "torch-1p1d.toml")
NEW_TOKENS = 64
VOCAB = 49_152
BLOCK = 32
TOKEN_BYTES = 30 * 2 * 3 * 64 * 4
AT_ONCE = 20


def ask_all(live: Live, vocab: int, lengths: tuple[int, ...] = LENGTHS) -> dict[int, Json]:
    """Every prompt, many at a time; by prompt length."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        prompts = [token_prompt(length, vocab) for length in lengths]
        answers = pool.map(lambda prompt: live.complete(prompt, NEW_TOKENS), prompts)
    return dict(zip(lengths, answers, strict=True))


def ids_of(answers: dict[int, Json]) -> dict[int, list[int]]:
    return {length: answer["choices"][0]["token_ids"] for length, answer in answers.items()}


@pytest.fixture(scope="module")
def shared_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Json]]:
    default_model()
    with live_cluster(tmp_path_factory.mktemp("run"), TORCH) as live:
        yield ask_all(live, VOCAB)


def test_ids_are_the_argmax_of_an_uncached_forward(
    shared_memory: dict[int, Json], record_property: Callable[[str, object], None]
) -> None:
    reference = reference_of(default_model(), default_cache())
    verdicts = {}
    for length, ids in ids_of(shared_memory).items():
        assert len(ids) == NEW_TOKENS
        verdicts[length] = judge(reference, token_prompt(length, VOCAB), ids)
    record_property("smallest_margin", min(v.smallest_margin for v in verdicts.values()))
    record_property("near_ties", sum(v.near_ties for v in verdicts.values()))
    assert {length: v.wrong for length, v in verdicts.items() if v.wrong} == {}


def test_three_prompts_also_by_recomputing_every_token(shared_memory: dict[int, Json]) -> None:
    reference = reference_of(default_model(), default_cache())
    for length in (1, 33, 64):
        ids = ids_of(shared_memory)[length]
        assert reference.greedy_token_by_token(token_prompt(length, VOCAB), NEW_TOKENS) == ids


def test_it_really_is_disaggregated(shared_memory: dict[int, Json]) -> None:
    for length, answer in shared_memory.items():
        (stream,) = answer["streams"]
        ledger = stream["ledger"]
        assert stream["prefill"] == "prefill-0"
        assert stream["writer"].startswith("decode-0/")
        assert ledger["decode_prefill_tokens"] == 0
        assert ledger["prefill_computed_tokens"] == length
        blocks = -(-length // BLOCK)
        assert ledger["transfer_bytes"] == blocks * BLOCK * TOKEN_BYTES
    ledger = shared_memory[2000]["streams"][0]["ledger"]
    assert ledger["prefill_chunks"] > 1
    assert ledger["transfer_early_bytes"] >= ledger["transfer_bytes"] / 2


@pytest.mark.parametrize("make", [tiny_llama, tiny_qwen3])
def test_tiny_random_models_agree_with_the_reference(
    make: Callable[[Path, int], Path], tmp_path: Path
) -> None:
    folder = make(tmp_path / "model", 5)
    context = json.loads((folder / "config.json").read_text())["max_position_embeddings"]
    lengths = tuple(length for length in LENGTHS if length + NEW_TOKENS <= context)
    with live_cluster(tmp_path / "run", TORCH, model=str(folder)) as live:
        answers = ask_all(live, TINY_VOCAB, lengths)
    reference = reference_of(folder, default_cache())
    wrong = {}
    for length, ids in ids_of(answers).items():
        verdict = judge(reference, token_prompt(length, TINY_VOCAB), ids)
        if verdict.wrong:
            wrong[length] = verdict
    assert wrong == {}
