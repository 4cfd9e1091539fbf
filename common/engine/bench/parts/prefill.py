"""Prompt tokens a second, in chunks as large as the engine's steps, one token drawn at the end."""

from collections.abc import Iterator

from common.engine.bench.pieces import Piece, batch_of
from common.engine.bench.rig import Rig
from common.engine.bench.row import Row
from common.engine.bench.sizes import Sizes
from common.engine.engine import EngineLimits
from common.engine.runner import Batch


def rows(rig: Rig, sizes: Sizes) -> Iterator[Row]:
    for length in sizes.prefill:
        yield _row(rig, sizes, f"{length}", length, 0)
    length, cached = sizes.continued
    yield _row(rig, sizes, f"{length} on {cached}", length, cached)


def _row(rig: Rig, sizes: Sizes, case: str, length: int, cached: int) -> Row:
    chunks = _chunks(rig, length, cached)
    measured = rig.measure(lambda: [rig.runner.step(batch) for batch in chunks], sizes.steps)
    rate = length / measured.timing.seconds
    details = {"ms": measured.timing.seconds * 1e3, "chunks": float(len(chunks))}
    return Row("prefill", case, rate, "tokens/s", measured.timing, measured.work, details)


def _chunks(rig: Rig, length: int, cached: int) -> list[Batch]:
    (table,) = rig.tables(1, cached + length)
    tokens = rig.tokens(length)
    size = EngineLimits().step_tokens
    return [
        batch_of([Piece(table, tokens[at : at + size], cached + at, int(at + size >= length))])
        for at in range(0, length, size)
    ]
