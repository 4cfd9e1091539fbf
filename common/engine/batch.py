"""From a step plan to the ragged batch a runner takes."""

from collections.abc import Sequence as Sequences

import numpy as np

from common.engine.runner import Batch, Draw
from common.engine.sequence import Sequence


def build_batch(rows: Sequences[tuple[Sequence, int]]) -> tuple[Batch, list[tuple[Sequence, int]]]:
    """The batch, and for each of its draws the sequence and choice it is for.

    A sequence whose last token is in the batch draws one token; the first choice of a request with
    n choices draws all n when its prompt ends, because they share that row.
    """
    tokens: list[int] = []
    positions: list[int] = []
    starts = [0]
    wanted: list[int] = []
    draws: list[Draw] = []
    owners: list[tuple[Sequence, int]] = []
    for sequence, count in rows:
        stop = sequence.computed + count
        tokens += sequence.tokens(sequence.computed, stop)
        positions += range(sequence.computed, stop)
        starts.append(len(tokens))
        if stop < sequence.length:
            continue
        for choice in choices_to_draw(sequence):
            draws.append(
                Draw(len(wanted), sequence.params, choice, sequence.prompt, sequence.output)
            )
            owners.append((sequence, choice))
        wanted.append(len(tokens) - 1)
    batch = Batch(
        tokens=np.asarray(tokens, dtype=np.int64),
        positions=np.asarray(positions, dtype=np.int64),
        starts=np.asarray(starts, dtype=np.int32),
        tables=[sequence.table_array() for sequence, _ in rows],
        rows=np.asarray(wanted, dtype=np.int64),
        draws=draws,
    )
    return batch, owners


def choices_to_draw(sequence: Sequence) -> Sequences[int]:
    """All n at the end of a prompt that n choices share, else the sequence's own."""
    if sequence.output:
        return (sequence.choice,)
    return range(sequence.params.n)
