"""What a step cannot do without: bytes read from memory and floating-point operations.

Weights are read once a step, and so are the keys and values of a block, whoever attends to them;
every row multiplies with every weight, and only wanted rows with the head. A multiplication and its
addition are two operations. Pure: shapes in, numbers out. What a machine needs for these numbers at
its measured peaks is the floor that a measured time is compared with.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from common.checkpoint.config import ModelConfig
from common.engine.runner import Batch, Int32Array, Int64Array


@dataclass(frozen=True, slots=True)
class Work:
    bytes: float = 0.0
    flops: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.bytes + other.bytes, self.flops + other.flops)

    def over(self, parts: int) -> "Work":
        return Work(self.bytes / parts, self.flops / parts)


@dataclass(frozen=True, slots=True)
class StepNeeds:
    config: ModelConfig
    weight_bytes: float
    """Matrices as the runner stores them, the head included, the embedding of an untied model
    not: a step looks up a few of its rows."""
    token_bytes: int
    """Keys and values of one token."""
    block_tokens: int

    def of(self, batch: Batch) -> Work:
        last = batch.starts[1:] - 1
        rows = len(batch.tokens)
        kv_tokens = self._tokens_read(batch.tables, batch.positions[last] + 1) + rows
        attended = int((batch.positions + 1).sum())
        c = self.config
        flops = 2 * (layer_weights(c) * rows + head_weights(c) * len(batch.rows))
        flops += 4 * c.layers * c.heads * c.head_dim * attended
        return Work(self.weight_bytes + kv_tokens * self.token_bytes, float(flops))

    def _tokens_read(self, tables: Sequence[Int32Array], lengths: Int64Array) -> int:
        slots, tokens = [], []
        for table, length in zip(tables, lengths.tolist(), strict=True):
            begins = np.arange(0, length, self.block_tokens)
            slots.append(table[: len(begins)])
            tokens.append(np.minimum(length - begins, self.block_tokens))
        _, kinds = np.unique(np.concatenate(slots), return_inverse=True)
        most = np.zeros(len(kinds), np.int64)
        np.maximum.at(most, kinds, np.concatenate(tokens))
        return int(most.sum())

    def total(self, batches: Iterable[Batch]) -> Work:
        return sum((self.of(batch) for batch in batches), Work())


def layer_weights(config: ModelConfig) -> int:
    """Elements of all matrices but embedding and head."""
    attention = config.hidden * config.head_dim * 2 * (config.heads + config.kv_heads)
    return config.layers * (attention + 3 * config.hidden * config.intermediate)


def head_weights(config: ModelConfig) -> int:
    return config.hidden * config.vocab


@dataclass(frozen=True, slots=True)
class Floors:
    """The machine's peaks with so many threads, measured beside the rows they judge."""

    read_bytes_s: float
    flops_s: float

    def reached(self, work: Work, seconds: float) -> dict[str, float]:
        """Which fraction of each peak was used. Above 1: a cache helped."""
        fractions = {
            "bandwidth": work.bytes / seconds / self.read_bytes_s,
            "flops": work.flops / seconds / self.flops_s,
        }
        return {name: float(np.round(value, 3)) for name, value in fractions.items()}
