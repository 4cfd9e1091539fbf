"""Attention over the block pool: one object plans a step, then serves every layer of it.

The pool is [slots, layers, 2, kv_heads, block_tokens, head_dim], its slots possibly further apart
than their bytes. Each layer first writes the step's keys and values into the blocks that the tables
name, then every row attends to positions 0..its own of its sequence. Keys and values of a sequence
are gathered once per layer into a scratch that all layers share.

Queries are laid [kv_head, row, query head of its group]: the query heads of a group read the same
keys, so they count as more rows and no key is repeated.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from common.model.attention.grouping import group_by_length

Int64Array = npt.NDArray[np.int64]
Int32Array = npt.NDArray[np.int32]

_TILE_ROWS = 128
"""Rows of a chunk that attend in one call, which also computes what its mask hides: so, few."""
_GROUP_BYTES = 2 << 20
"""Keys and values gathered for one group of decoding sequences."""


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Consecutive rows of one sequence."""

    row: int
    count: int
    position: int
    """Of its first row."""
    slots: Tensor


@dataclass(frozen=True, slots=True)
class _DecodeGroup:
    """One row each of several sequences, padded to the longest."""

    rows: Tensor
    slots: Tensor
    """[sequences * blocks]; a shorter sequence repeats its first slot."""
    mask: Tensor
    """[sequences, 1, 1, tokens]: 0 where a row may look, else -inf."""
    tails: Tensor
    """Gathered tokens past a sequence's end. What lies there may be anything, even NaN, and NaN
    times the zero weight of a masked token is NaN: so they are cleared."""


class PagedAttention:
    """`positions`, `starts` and `tables` are as in the engine's batch."""

    def __init__(
        self,
        pool: Tensor,
        query_heads: int,
        positions: Int64Array,
        starts: Int32Array,
        tables: Sequence[Int32Array],
    ) -> None:
        self._pool = pool
        self._block_tokens = pool.shape[4]
        self._group = query_heads // pool.shape[3]
        self._write_to = self._targets(positions, starts, tables)
        self._chunks: list[_Chunk] = []
        self._decodes: list[_DecodeGroup] = []
        self._plan(positions, starts, tables)
        self._band_position, self._band = self._causal_band()
        gathers = [chunk.slots for chunk in self._chunks] + [group.slots for group in self._decodes]
        most_blocks = max((len(slots) for slots in gathers), default=0)
        self._scratch = pool.new_empty(most_blocks * pool[0, 0].numel())

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Queries [rows, heads, head_dim], keys and values [rows, kv_heads, head_dim], rotated;
        returns [rows, heads * head_dim]."""
        blocks = self._pool[:, layer]
        by_token = blocks.permute(0, 3, 1, 2, 4)
        by_token.index_put_(self._write_to, torch.stack((keys, values), dim=1))
        rows, heads, head_dim = queries.shape
        grouped = queries.view(rows, heads // self._group, self._group, head_dim)
        mixed = torch.empty_like(grouped)
        for chunk in self._chunks:
            self._attend_chunk(chunk, blocks, grouped, mixed)
        for group in self._decodes:
            self._attend_group(group, blocks, grouped, mixed)
        return mixed.view(rows, heads * head_dim)

    def _attend_chunk(self, chunk: _Chunk, blocks: Tensor, queries: Tensor, mixed: Tensor) -> None:
        gathered = self._gather(blocks, chunk.slots).flatten(2, 3)[:, None]
        for start in range(0, chunk.count, _TILE_ROWS):
            count = min(_TILE_ROWS, chunk.count - start)
            rows = slice(chunk.row + start, chunk.row + start + count)
            position = chunk.position + start
            end = position + count
            offset = self._band_position - position
            mask = self._band[: count * self._group, offset : offset + end] if count > 1 else None
            tile = queries[rows].transpose(0, 1).flatten(1, 2)[None]
            keys, values = gathered[..., :end, :]
            out = F.scaled_dot_product_attention(tile, keys, values, attn_mask=mask)
            mixed[rows] = out.view(-1, count, self._group, tile.shape[-1]).transpose(0, 1)

    def _attend_group(
        self, group: _DecodeGroup, blocks: Tensor, queries: Tensor, mixed: Tensor
    ) -> None:
        gathered = self._gather(blocks, group.slots).flatten(2, 3)
        gathered.index_fill_(2, group.tails, 0.0)
        shape = (2, gathered.shape[1], len(group.rows), -1, gathered.shape[-1])
        keys, values = gathered.view(shape).transpose(1, 2)
        out = F.scaled_dot_product_attention(
            queries.index_select(0, group.rows), keys, values, attn_mask=group.mask
        )
        mixed.index_copy_(0, group.rows, out)

    def _gather(self, blocks: Tensor, slots: Tensor) -> Tensor:
        """[2, kv_heads, len(slots), block_tokens, head_dim] of one layer, valid until the next."""
        source = blocks.permute(1, 2, 0, 3, 4)
        shape = (*source.shape[:2], len(slots), *source.shape[3:])
        out = self._scratch[: blocks[0].numel() * len(slots)].view(shape)
        return torch.index_select(source, 2, slots, out=out)

    def _targets(
        self, positions: Int64Array, starts: Int32Array, tables: Sequence[Int32Array]
    ) -> tuple[Tensor, Tensor]:
        """Slot and offset that each row writes."""
        blocks, offsets = np.divmod(positions, self._block_tokens)
        slots = np.empty_like(positions)
        for table, start, stop in zip(tables, starts[:-1], starts[1:], strict=True):
            slots[start:stop] = table[blocks[start:stop]]
        return self._index(slots), self._index(offsets)

    def _plan(
        self, positions: Int64Array, starts: Int32Array, tables: Sequence[Int32Array]
    ) -> None:
        decoding: list[tuple[int, int, Int32Array]] = []
        for table, start, stop in zip(
            tables, starts[:-1].tolist(), starts[1:].tolist(), strict=True
        ):
            tokens = int(positions[stop - 1]) + 1
            used = table[: -(-tokens // self._block_tokens)]
            if stop - start == 1:
                decoding.append((start, tokens, used))
            else:
                self._add_chunk(start, stop - start, int(positions[start]), used)
        block_bytes = self._pool[0, 0].numel() * self._pool.element_size()
        counts = [len(used) for _, _, used in decoding]
        for members in group_by_length(counts, _GROUP_BYTES // block_bytes):
            if len(members) == 1:
                row, tokens, used = decoding[members[0]]
                self._add_chunk(row, 1, tokens - 1, used)
            else:
                self._add_group([decoding[member] for member in members])

    def _add_chunk(self, row: int, count: int, position: int, used: Int32Array) -> None:
        self._chunks.append(_Chunk(row, count, position, self._index(used)))

    def _add_group(self, members: Sequence[tuple[int, int, Int32Array]]) -> None:
        """Members are (row, tokens, slots), the longest first."""
        width = len(members[0][2])
        slots = np.empty((len(members), width), dtype=np.int64)
        for index, (_, _, used) in enumerate(members):
            slots[index] = used[0]
            slots[index, : len(used)] = used
        tokens = np.array([tokens for _, tokens, _ in members])[:, None]
        past = np.arange(width * self._block_tokens) >= tokens
        mask = np.where(past, -np.inf, 0.0).astype(np.float32)
        self._decodes.append(
            _DecodeGroup(
                rows=self._index(np.array([row for row, _, _ in members])),
                slots=self._index(slots.ravel()),
                mask=torch.from_numpy(mask)[:, None, None].to(self._pool),
                tails=self._index(np.flatnonzero(past)),
            )
        )

    def _causal_band(self) -> tuple[int, Tensor]:
        """The mask of every tile is a view of one band: row r of it may look at columns up to
        `position` + r, and a tile that starts at p uses it from column `position` - p on."""
        chunks = [chunk for chunk in self._chunks if chunk.count > 1]
        position = max((chunk.position + chunk.count for chunk in chunks), default=0)
        tile = min(_TILE_ROWS, max((chunk.count for chunk in chunks), default=0))
        rows = torch.arange(tile, device=self._pool.device).repeat_interleave(self._group)
        columns = torch.arange(position + tile, device=self._pool.device)
        band = self._pool.new_zeros(len(rows), len(columns))
        return position, band.masked_fill_(columns > position + rows[:, None], -torch.inf)

    def _index(self, values: Int64Array | Int32Array) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._pool.device)
