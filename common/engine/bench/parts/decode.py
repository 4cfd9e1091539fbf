"""One token of each of several sequences: ms a step and tokens a second together."""

from collections.abc import Iterator

from common.engine.bench.pieces import Piece
from common.engine.bench.rig import Rig
from common.engine.bench.row import Row
from common.engine.bench.sizes import Sizes


def rows(rig: Rig, sizes: Sizes) -> Iterator[Row]:
    for context in sizes.contexts:
        for batch in sizes.batches:
            yield _row(rig, sizes, batch, context)
    for batch, context, shared in sizes.sharing:
        yield _row(rig, sizes, batch, context, shared)


def _row(rig: Rig, sizes: Sizes, batch: int, context: int, shared: int = 0) -> Row:
    """Each token attends to `context` tokens, itself included; the first `shared` are the same."""
    tokens = rig.tokens(batch)
    pieces = [
        Piece(table, [token], context - 1, 1)
        for table, token in zip(rig.tables(batch, context, shared), tokens, strict=True)
    ]
    measured = rig.measure(rig.step(pieces), sizes.steps)
    seconds = measured.timing.seconds
    details = {"tokens_s": batch / seconds, "batch": float(batch), "context": float(context)}
    case = f"batch {batch}, context {context}" + (f", {shared} shared" if shared else "")
    return Row("decode", case, seconds * 1e3, "ms", measured.timing, measured.work, details)
