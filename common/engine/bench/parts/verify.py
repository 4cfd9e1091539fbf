"""Several tokens of a sequence at once, all drawn, relative to one: what checking a draft costs."""

from collections.abc import Iterator

from common.engine.bench.pieces import Piece
from common.engine.bench.rig import Measured, Rig
from common.engine.bench.row import Row
from common.engine.bench.sizes import Sizes


def rows(rig: Rig, sizes: Sizes) -> Iterator[Row]:
    for batch in sizes.verify_batches:
        one = _measured(rig, sizes, batch, 1)
        for count in sizes.verify_rows:
            many = _measured(rig, sizes, batch, count)
            ratio = many.timing.seconds / one.timing.seconds
            details = {"ms": many.timing.seconds * 1e3, "one_ms": one.timing.seconds * 1e3}
            case = f"batch {batch}, {count} rows each"
            yield Row("verify", case, ratio, "x", many.timing, many.work, details)


def _measured(rig: Rig, sizes: Sizes, batch: int, count: int) -> Measured:
    tables = rig.tables(batch, sizes.verify_context + count)
    pieces = [
        Piece(table, rig.tokens(count, seed), sizes.verify_context, count)
        for seed, table in enumerate(tables)
    ]
    return rig.measure(rig.step(pieces), sizes.steps)
