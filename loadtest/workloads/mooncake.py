"""Replay of traces in Mooncake's format, which say what parts of prompts are the same.

A row is {"timestamp": ms, "input_length", "output_length", "hash_ids"}: an id for each block of 512
tokens, equal only where all before it is equal too. An id becomes the same text wherever it stands,
so prompts share exactly the prefixes that the recorded ones shared.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from random import Random
from typing import Literal, Self

from pydantic import BaseModel, Field, model_validator

from loadtest.data_file import Source, bad_row, json_rows
from loadtest.replay import Recorded, Replay
from loadtest.session import Message, Session, Turn
from loadtest.writer import Writer

MOONCAKE = Source(
    "Mooncake's traces",
    "kvcache-ai/Mooncake",
    "FAST25-release/traces/*.jsonl",
    "Apache-2.0",
)
_REMEMBERED = 4096
"""Blocks' texts; another is written again, and is the same."""


class _Row(BaseModel):
    timestamp: float = Field(ge=0)
    input_length: int = Field(ge=1)
    output_length: int = Field(ge=1)
    hash_ids: tuple[int, ...]


class Mooncake(Replay):
    """Replay of a trace in Mooncake's format: arrivals, lengths and shared prefixes."""

    kind: Literal["mooncake"] = "mooncake"
    block_tokens: int = Field(
        default=512, ge=1, description="Length of the trace's blocks, undivided."
    )

    @model_validator(mode="after")
    def _blocks_divide(self) -> Self:
        if self.block_tokens % self.divisor:
            raise ValueError(
                f"divisor {self.divisor} does not divide block_tokens {self.block_tokens}"
            )
        return self

    def recorded(self) -> Iterator[Recorded]:
        for line, row in json_rows(self.path, _Row, MOONCAKE):
            blocks = -(-row.input_length // self.block_tokens)
            if len(row.hash_ids) != blocks:
                raise bad_row(
                    self.path,
                    line,
                    f"hash_ids: are {len(row.hash_ids)}, but {row.input_length} tokens are "
                    f"{blocks} blocks of {self.block_tokens}",
                )
            yield Recorded(
                line, row.timestamp / 1e3, row.input_length, row.output_length, row.hash_ids
            )

    def sessions(self, seed: int, writer: Writer) -> Iterator[Session]:
        return self._replayed(self.kept(), seed, writer)

    def _replayed(self, rows: Sequence[Recorded], seed: int, writer: Writer) -> Iterator[Session]:
        @lru_cache(_REMEMBERED)
        def block(hash_id: int, tokens: int) -> str:
            return writer.write(tokens, Random(f"{self.kind} {seed} {hash_id}"))

        block_tokens = self.block_tokens // self.divisor
        for row in rows:
            *whole, last = row.hash_ids
            rest = row.prompt_tokens - len(whole) * block_tokens
            text = "".join([*(block(one, block_tokens) for one in whole), block(last, rest)])
            yield Session((Turn((Message("user", text),), row.output_tokens),), at_s=row.at_s)
