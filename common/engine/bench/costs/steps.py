"""Which steps are measured to fit the law, and which others to judge it.

Those that judge lie between and beside those that fit. A step is a batch of decodes with equal
contexts, a chunk of one prompt behind cached tokens, or both.
"""

from dataclasses import dataclass

from common.engine.bench.costs.step_law import decode_shape
from common.engine.bench.pieces import Piece
from common.engine.bench.rig import Rig
from common.engine.step_cost import StepShape


@dataclass(frozen=True, slots=True)
class Step:
    rows: int = 0
    context: int = 0
    """Of each row, the row's own token included."""
    tokens: int = 0
    cached: int = 0

    @property
    def shape(self) -> StepShape:
        shape = decode_shape(self.rows, self.context)
        return shape.with_chunk(self.cached, self.tokens) if self.tokens else shape

    def pieces(self, rig: Rig) -> list[Piece]:
        made = []
        longest = max(self.context, self.cached + self.tokens)
        tables = rig.tables(self.rows + bool(self.tokens), longest)
        if self.rows:
            tokens = rig.tokens(self.rows)
            made += [
                Piece(table, [token], self.context - 1, 1)
                for table, token in zip(tables[: self.rows], tokens, strict=True)
            ]
        if self.tokens:
            made.append(Piece(tables[-1], rig.tokens(self.tokens), self.cached, 1))
        return made

    def blocks(self, block_tokens: int) -> int:
        longest = max(self.context, self.cached + self.tokens)
        return (self.rows + bool(self.tokens)) * -(-longest // block_tokens)


FITTED = (
    *(Step(tokens=n) for n in (16, 32, 64, 96, 128, 192, 256, 384, 512)),
    *(Step(tokens=n, cached=512) for n in (64, 256)),
    *(Step(rows=b, context=c) for b in (1, 2, 4, 6, 8, 12, 16, 24, 32, 48) for c in (64, 256, 768)),
    *(
        Step(rows=b, context=256, tokens=n, cached=64)
        for b in (1, 4, 8, 16)
        for n in (16, 32, 64, 128)
    ),
)
JUDGED = (
    *(Step(tokens=n) for n in (48, 160, 224, 320, 448)),
    Step(tokens=128, cached=320),
    *(Step(rows=b, context=c) for b in (1, 3, 5, 10, 20, 40) for c in (128, 416)),
    *(Step(rows=b, context=192, tokens=n, cached=32) for b in (2, 6, 12) for n in (48, 96)),
)
"""Not used for the fit."""

QUICK_FITTED = (
    *(Step(tokens=n) for n in (8, 16, 32)),
    *(Step(rows=b, context=c) for b in (1, 2, 3) for c in (16, 40)),
    *(Step(rows=b, context=16, tokens=8) for b in (1, 2)),
)
QUICK_JUDGED = (Step(tokens=24), Step(rows=2, context=24), Step(rows=1, context=24, tokens=16))
"""To see that it works."""
