"""Batches written by hand: what one step computes, without an engine that plans it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.domain.sampling import SamplingParams
from common.engine.runner import Batch, Draw, Int32Array

GREEDY = SamplingParams(seed=0, max_tokens=1, temperature=0.0, ignore_eos=True)


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows of one sequence."""

    table: Int32Array
    tokens: Sequence[int]
    start: int
    """Position of the first."""
    draws: int
    """Of how many of the last rows a token is drawn."""


def batch_of(pieces: Sequence[Piece]) -> Batch:
    tokens: list[int] = []
    positions: list[int] = []
    starts = [0]
    rows: list[int] = []
    for piece in pieces:
        tokens += piece.tokens
        positions += range(piece.start, piece.start + len(piece.tokens))
        starts.append(len(tokens))
        rows += range(len(tokens) - piece.draws, len(tokens))
    return Batch(
        tokens=np.asarray(tokens, dtype=np.int64),
        positions=np.asarray(positions, dtype=np.int64),
        starts=np.asarray(starts, dtype=np.int32),
        tables=[piece.table for piece in pieces],
        rows=np.asarray(rows, dtype=np.int64),
        draws=[Draw(row, GREEDY, 0, (), ()) for row in range(len(rows))],
    )
