"""From a step plan to the ragged batch a runner takes."""

from collections.abc import Sequence as Sequences

import numpy as np

from common.engine.runner import Batch, Draw, Int32Array, Int64Array
from common.engine.sequence import Sequence


def build_batch(
    rows: Sequences[tuple[Sequence, int]], padding: Sequences[Sequence] = ()
) -> tuple[Batch, list[tuple[Sequence, int]]]:
    """The batch, and for each of its draws the sequence and choice it is for.

    A sequence whose last token is in the batch draws one token; the first choice of a request with
    n choices draws all n when its prompt ends, because they share that row. Of `padding` the last
    row is computed again; those draws come last and are for nobody.
    """
    tokens: list[int] = []
    firsts: list[int] = []
    starts = [0]
    tables: list[Int32Array] = []
    wanted: list[int] = []
    draws: list[Draw] = []
    owners: list[tuple[Sequence, int]] = []
    for sequence, count in rows:
        first, remaining = sequence.computed, sequence.remaining
        firsts.append(first)
        tables.append(sequence.table_array())
        if count == 1 == remaining:
            tokens.append(sequence.newest)
        else:
            tokens += sequence.tokens(first, first + count)
        starts.append(len(tokens))
        if count < remaining:
            continue
        for choice in choices_to_draw(sequence):
            draws.append(sequence.draw(len(wanted), choice))
            owners.append((sequence, choice))
        wanted.append(len(tokens) - 1)
    for sequence in padding:
        last = sequence.computed - 1
        firsts.append(last)
        tables.append(sequence.table_array())
        tokens += sequence.tokens(last, last + 1)
        starts.append(len(tokens))
        draws.append(sequence.draw(len(wanted), sequence.choice))
        wanted.append(len(tokens) - 1)
    bounds = np.array(starts, dtype=np.int32)
    batch = Batch(
        tokens=np.array(tokens, dtype=np.int64),
        positions=_positions(firsts, bounds),
        starts=bounds,
        tables=tables,
        rows=np.array(wanted, dtype=np.int64),
        draws=draws,
    )
    return batch, owners


def _positions(firsts: list[int], starts: Int32Array) -> Int64Array:
    """Of every row, counted up from the first of its sequence."""
    positions = np.array(firsts, dtype=np.int64)
    if starts[-1] == len(firsts):
        return positions
    shifts = np.repeat(positions - starts[:-1], np.diff(starts))
    return np.arange(starts[-1], dtype=np.int64) + shifts


def choices_to_draw(sequence: Sequence) -> Sequences[int]:
    """All n at the end of a prompt that n choices share, else the sequence's own."""
    if sequence.output:
        return (sequence.choice,)
    return range(sequence.params.n)
