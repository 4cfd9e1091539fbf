"""From a plan to the ragged batch, and whose draws are whose."""

from dataclasses import replace

import numpy as np

from common.engine.batch import build_batch, choices_to_draw
from tests.support.sequences import cache_of, decoding, running


def test_rows_lie_end_to_end_with_positions_tables_and_starts() -> None:
    cache = cache_of(10)
    decode = decoding(cache, "d", 5)
    chunk = running(cache, "p", 50, arrival=1, computed=16)
    batch, owners = build_batch([(decode, 1), (chunk, 20)])
    assert batch.starts.tolist() == [0, 1, 21]
    assert batch.tokens.tolist() == [decode.output[0], *chunk.prompt[16:36]]
    assert batch.positions.tolist() == [5, *range(16, 36)]
    assert [table.tolist() for table in batch.tables] == [decode.table, chunk.table]
    assert (batch.tokens.dtype, batch.positions.dtype) == ("int64", "int64")
    assert (batch.starts.dtype, batch.rows.dtype) == ("int32", "int64")
    assert owners == [(decode, 0)], "a chunk in the middle of its prompt draws nothing"
    assert batch.rows.tolist() == [0]


def test_a_prompts_last_chunk_draws_from_its_last_row() -> None:
    cache = cache_of(10)
    first, second = (
        running(cache, name, 50, arrival=index, computed=40) for index, name in enumerate("ab")
    )
    batch, owners = build_batch([(first, 9), (second, 10)])
    assert owners == [(second, 0)]
    assert batch.rows.tolist() == [18]
    assert [draw.row for draw in batch.draws] == [0]


def test_all_choices_of_a_prompt_are_drawn_from_one_row() -> None:
    cache = cache_of(10)
    sequence = running(cache, "a", 8)
    sequence.params = replace(sequence.params, n=3)
    after = decoding(cache, "b", 4, arrival=1)
    batch, owners = build_batch([(sequence, 8), (after, 1)])
    assert [(owner.key.request, choice) for owner, choice in owners] == [
        ("a", 0),
        ("a", 1),
        ("a", 2),
        ("b", 0),
    ]
    assert [draw.row for draw in batch.draws] == [0, 0, 0, 1]
    assert [draw.choice for draw in batch.draws] == [0, 1, 2, 0]
    assert batch.rows.tolist() == [7, 8]


def test_a_draw_knows_prompt_and_output_of_its_sequence() -> None:
    cache = cache_of(10)
    sequence = running(cache, "a", 8, computed=10, output=3)
    sequence.choice = 2
    batch, _ = build_batch([(sequence, 1)])
    (draw,) = batch.draws
    assert (draw.prompt, draw.output, draw.choice) == (sequence.prompt, sequence.output, 2)
    assert draw.params is sequence.params


def test_recomputed_tokens_run_from_prompt_into_output_and_draw_at_the_end_only() -> None:
    cache = cache_of(10)
    sequence = running(cache, "a", 20, computed=16, output=6)
    batch, owners = build_batch([(sequence, 9)])
    assert batch.tokens.tolist() == [*sequence.prompt[16:], *sequence.output[:5]]
    assert owners == []
    batch, owners = build_batch([(sequence, 10)])
    assert owners == [(sequence, 0)]


def test_a_running_choice_draws_for_itself_alone() -> None:
    sequence = running(cache_of(4), "a", 8)
    sequence.params = replace(sequence.params, n=3)
    assert list(choices_to_draw(sequence)) == [0, 1, 2]
    sequence.choice, sequence.output = 1, [5]
    assert list(choices_to_draw(sequence)) == [1]


def test_chunks_and_decodes_in_any_order_agree_with_a_walk_over_every_token() -> None:
    rng = np.random.default_rng(4)
    cache = cache_of(400)
    for trial in range(30):
        rows = []
        for index in range(int(rng.integers(1, 8))):
            prompt, output = int(rng.integers(1, 60)), int(rng.integers(0, 9))
            computed = int(rng.integers(0, prompt + output))
            sequence = running(cache, f"{trial}.{index}", prompt, computed=computed, output=output)
            rows.append((sequence, int(rng.integers(1, sequence.remaining + 1))))
        batch, _ = build_batch(rows)
        walked = [
            (position, [*sequence.prompt, *sequence.output][position])
            for sequence, count in rows
            for position in range(sequence.computed, sequence.computed + count)
        ]
        assert list(zip(batch.positions, batch.tokens, strict=True)) == walked
        assert batch.positions.dtype == "int64"
        assert np.diff(batch.starts).tolist() == [count for _, count in rows]
        for sequence, _ in rows:
            cache.release(sequence.table)


def test_padding_comes_last_with_one_row_and_one_draw_each_that_nobody_owns() -> None:
    cache = cache_of(10)
    stream = decoding(cache, "stream", 20)
    over = running(cache, "over", 20, computed=22, output=3)
    short = running(cache, "short", 5, computed=5, output=1)
    batch, owners = build_batch([(stream, 1)], [over, short])
    assert owners == [(stream, 0)]
    assert batch.tokens.tolist() == [stream.newest, over.output[1], short.prompt[-1]]
    assert batch.positions.tolist() == [20, 21, 4]
    assert batch.starts.tolist() == [0, 1, 2, 3]
    assert [table.tolist() for table in batch.tables] == [stream.table, over.table, short.table]
    assert batch.rows.tolist() == [draw.row for draw in batch.draws] == [0, 1, 2]
