"""Paged attention against attention over the dense keys and values it was given."""

import numpy as np
import pytest
import torch

from common.model.attention import paged
from common.model.attention.paged import PagedAttention

LAYERS, KV_HEADS, GROUP, HEAD_DIM, BLOCK = 2, 2, 3, 8, 16
HEADS = KV_HEADS * GROUP


def rows_of(count: int, heads: int, seed: int) -> torch.Tensor:
    values = np.random.default_rng(seed).standard_normal((count, heads, HEAD_DIM))
    return torch.tensor(values, dtype=torch.float32)


def dense(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The last len(queries) rows of a sequence attend to all before them."""
    out = torch.empty_like(queries)
    before = len(keys) - len(queries)
    for row in range(len(queries)):
        for head in range(HEADS):
            seen = keys[: before + row + 1, head // GROUP]
            shares = torch.softmax(seen @ queries[row, head] / HEAD_DIM**0.5, dim=0)
            out[row, head] = shares @ values[: before + row + 1, head // GROUP]
    return out.flatten(1)


class Sequences:
    """Random keys and values; the rows before `now` are written to the pool first, one step."""

    def __init__(self, lengths: list[int], now: list[int]) -> None:
        blocks = [-(-length // BLOCK) for length in lengths]
        self.pool = torch.full(
            (sum(blocks) + 3, LAYERS, 2, KV_HEADS, BLOCK, HEAD_DIM), float("nan")
        )
        slots = np.random.default_rng(9).permutation(len(self.pool)).astype(np.int32)
        self.tables = np.split(slots, np.cumsum(blocks))[: len(lengths)]
        self.lengths, self.now = lengths, now

    def attention(self, begin: list[int], end: list[int]) -> PagedAttention:
        spans = [np.arange(b, e) for b, e in zip(begin, end, strict=True)]
        kept = [index for index, span in enumerate(spans) if len(span)]
        return PagedAttention(
            self.pool,
            HEADS,
            np.concatenate([spans[index] for index in kept]),
            np.cumsum([0] + [len(spans[index]) for index in kept]).astype(np.int32),
            [self.tables[index] for index in kept],
        )

    def check(self) -> None:
        before = [length - now for length, now in zip(self.lengths, self.now, strict=True)]
        keys = [rows_of(length, KV_HEADS, 10 + i) for i, length in enumerate(self.lengths)]
        values = [rows_of(length, KV_HEADS, 50 + i) for i, length in enumerate(self.lengths)]
        queries = [rows_of(length, HEADS, 90 + i) for i, length in enumerate(self.lengths)]

        def rows(parts: list[torch.Tensor], begin: list[int], end: list[int]) -> torch.Tensor:
            return torch.cat([p[b:e] for p, b, e in zip(parts, begin, end, strict=True)])

        layer = 1
        for begin, end in (([0] * len(before), before), (before, self.lengths)):
            if begin == end:
                continue
            attention = self.attention(begin, end)
            inputs = [rows(parts, begin, end) for parts in (queries, keys, values)]
            out = attention.attend(layer, *inputs)
            expected = torch.cat(
                [
                    dense(q[b:e], k[:e], v[:e])
                    for q, k, v, b, e in zip(queries, keys, values, begin, end, strict=True)
                ]
            )
            torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
        assert self.pool[:, 0].isnan().all(), "another layer was written"


@pytest.mark.parametrize(
    ("lengths", "now"),
    [
        ([1], [1]),
        ([40], [40]),
        ([40], [1]),
        ([33], [17]),
        ([300], [300]),
        ([300], [129]),
        ([32, 31, 17, 33, 40], [1, 1, 1, 1, 1]),
        ([100, 7, 33, 100, 20], [1, 7, 1, 30, 1]),
    ],
)
def test_it_attends_as_dense_attention_does(lengths: list[int], now: list[int]) -> None:
    Sequences(lengths, now).check()


@pytest.mark.parametrize("group_bytes", [0, 20_000, 1 << 30])
def test_grouping_of_decodes_changes_nothing(
    group_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paged, "_GROUP_BYTES", group_bytes)
    Sequences([64, 63, 60, 49, 64, 50, 12, 11, 3], [1] * 9).check()
