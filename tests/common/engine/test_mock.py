"""The engine without a model: a wrong byte anywhere is a wrong token."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.domain.errors import ServingError
from common.domain.sampling import SamplingParams
from common.engine.mock import (
    EOS,
    FIRST_PRINTABLE,
    KV_BYTES,
    PRINTABLE,
    VOCAB,
    MockRunner,
    expected_output,
    mock_layout,
    next_token,
    token_kv,
)
from common.engine.runner import Batch, Draw, Drawn
from tests.support.engines import greedy, prompt_of

SLOTS = 8


class Pool:
    """A runner over its own memory, fed with one sequence at a time."""

    def __init__(self, block_tokens: int = 16, slot_bytes: int = 0) -> None:
        self.pauses: list[tuple[int, int]] = []
        self.runner = MockRunner(block_tokens, pause=lambda *rows: self.pauses.append(rows))
        self.slot_bytes = slot_bytes or self.runner.layout.block_bytes
        self.memory = bytearray(SLOTS * self.slot_bytes)
        self.runner.bind(memoryview(self.memory), SLOTS, self.slot_bytes)

    def step(
        self,
        tokens: list[int],
        start: int,
        table: list[int],
        params: SamplingParams,
        output: list[int] | None = None,
        choice: int = 0,
    ) -> Drawn:
        batch = Batch(
            tokens=np.array(tokens, dtype=np.int64),
            positions=np.arange(start, start + len(tokens), dtype=np.int64),
            starts=np.array([0, len(tokens)], dtype=np.int32),
            tables=[np.array(table, dtype=np.int32)],
            rows=np.array([len(tokens) - 1], dtype=np.int64),
            draws=[Draw(0, params, choice, tokens, output or [])],
        )
        (drawn,) = self.runner.step(batch)
        return drawn


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 90),
    st.permutations(range(SLOTS)),
    st.sampled_from([16, 32]),
    st.integers(1, 90),
    st.floats(0, 2),
    st.integers(0, 2**64 - 1),
)
def test_the_runner_gives_what_is_expected_through_any_table_and_in_any_chunks(
    length: int, table: list[int], block_tokens: int, chunk: int, temperature: float, seed: int
) -> None:
    prompt, pool = prompt_of(length), Pool(block_tokens)
    params = SamplingParams(seed, max_tokens=10, temperature=temperature)
    drawn = Drawn(-1)
    for start in range(0, length, chunk):
        drawn = pool.step(prompt[start : start + chunk], start, table, params)
    output = [drawn.token]
    while len(output) < 10:
        place = length + len(output) - 1
        output.append(pool.step(output[-1:], place, table, params, output).token)
    assert output == expected_output(prompt, params)


@pytest.mark.parametrize("offset", [0, 7, 8 * 16, 16 * KV_BYTES - 1, 16 * KV_BYTES + 20])
def test_a_flipped_byte_of_live_kv_changes_the_next_token(offset: int) -> None:
    """Of 95 tokens one may come out by chance: the digest before it must differ, too."""
    prompt, params, table = prompt_of(30), greedy(4), [5, 2]
    right, wrong = Pool(), Pool()
    for pool in (right, wrong):
        pool.step(prompt, 0, table, params)
    slot, inside = table[offset // wrong.slot_bytes], offset % wrong.slot_bytes
    wrong.memory[slot * wrong.slot_bytes + inside] ^= 1
    tokens = [
        [pool.step([65], 30, table, greedy(4, seed=seed, temperature=1.0), [1]).token
         for seed in range(3)]
        for pool in (right, wrong)
    ]  # fmt: skip
    assert tokens[0] != tokens[1]


def test_what_lies_past_the_last_token_does_not_matter() -> None:
    prompt, params = prompt_of(20), greedy(1)
    clean, dirty = Pool(), Pool()
    dirty.memory[:] = b"\xaa" * len(dirty.memory)
    tables = [[3, 4], [3, 4]]
    tokens = [
        pool.step(prompt, 0, table, params)
        for pool, table in zip((clean, dirty), tables, strict=True)
    ]
    assert tokens[0] == tokens[1]


def test_swapped_blocks_change_the_next_token() -> None:
    prompt, params = prompt_of(32), greedy(4)
    pool = Pool()
    pool.step(prompt, 0, [1, 2, 3], params)
    right = pool.step([65], 32, [1, 2, 3], params, [1])
    wrong = pool.step([65], 32, [2, 1, 3], params, [1])
    assert right != wrong


def test_a_copied_block_is_as_good_as_the_first() -> None:
    prompt, params = prompt_of(20), greedy(4)
    pool = Pool(slot_bytes=4096)
    pool.step(prompt, 0, [1, 2], params)
    pool.runner.copy_block(2, 6)
    assert pool.step([65], 20, [1, 6], params, [1]) == pool.step([65], 20, [1, 2], params, [1])


def test_choices_and_seeds_differ_only_when_there_is_a_temperature() -> None:
    prompt = prompt_of(12)
    cold, warm = greedy(30), greedy(30, temperature=0.7)
    assert expected_output(prompt, cold, 0) == expected_output(prompt, cold, 1)
    assert expected_output(prompt, warm, 0) != expected_output(prompt, warm, 1)
    other = greedy(30, temperature=0.7, seed=8)
    assert expected_output(prompt, warm) != expected_output(prompt, other)
    assert expected_output(prompt, warm, count=5) == expected_output(prompt, warm)[:5]


def test_tokens_are_printable_and_never_end_a_text() -> None:
    tokens = {next_token(bytes([i, j]), greedy(1), 0, 0) for i in range(50) for j in range(50)}
    assert tokens == set(range(FIRST_PRINTABLE, FIRST_PRINTABLE + PRINTABLE))
    assert EOS < VOCAB
    assert MockRunner(32).eos_token_ids == (EOS,)


def test_kv_depends_on_all_before_it_the_token_and_its_place() -> None:
    one = token_kv(b"", 5, 0)
    assert len(one) == KV_BYTES
    assert len({one, token_kv(b"", 6, 0), token_kv(b"", 5, 1), token_kv(one, 5, 0)}) == 4
    assert mock_layout(32).token_bytes == KV_BYTES


@pytest.mark.parametrize(("asked", "top"), [(None, 0), (0, 0), (3, 1)])
def test_log_probabilities_come_only_when_asked_for(asked: int | None, top: int) -> None:
    drawn = Pool().step(prompt_of(5), 0, [0], greedy(1, logprobs=asked))
    assert (drawn.logprob is None) == (asked is None)
    assert len(drawn.top) == top


def test_time_is_spent_by_rows_of_each_kind() -> None:
    pool = Pool()
    pool.step(prompt_of(12), 0, [0], greedy(1))
    pool.step([65], 12, [0], greedy(1), [1])
    assert pool.pauses == [(12, 0), (0, 1)]


def test_a_second_engine_cannot_move_the_first_ones_pool() -> None:
    pool = Pool()
    with pytest.raises(ServingError, match="already"):
        pool.runner.bind(memoryview(bytearray(pool.slot_bytes)), 1, pool.slot_bytes)
