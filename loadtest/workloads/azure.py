"""Replay of Azure's traces of 2023: real arrivals and lengths, and nothing about what was said.

The columns are TIMESTAMP, ContextTokens and GeneratedTokens.
"""

import csv
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Literal

from pydantic import BaseModel, Field, ValidationError, field_validator

from loadtest.data_file import Source, bad_row, lines_of
from loadtest.errors import LoadTestError
from loadtest.replay import Recorded, Replay
from loadtest.session import Message, Session, Turn
from loadtest.writer import Writer

AZURE = Source(
    "Azure's LLM inference traces of 2023",
    "Azure/AzurePublicDataset",
    "data/AzureLLMInferenceTrace_*.csv",
    "CC BY 4.0; cite Splitwise, ISCA 2024",
)


class _Row(BaseModel):
    at: datetime = Field(alias="TIMESTAMP")
    prompt: int = Field(alias="ContextTokens", ge=1)
    output: int = Field(alias="GeneratedTokens", ge=1)

    @field_validator("at", mode="before")
    @classmethod
    def _seconds_may_have_seven_digits(cls, value: object) -> object:
        if not isinstance(value, str):
            raise ValueError("there is no such column")
        at = datetime.fromisoformat(value)
        return at if at.tzinfo else at.replace(tzinfo=UTC)


class Azure(Replay):
    """Replay of a trace of Azure's: arrivals and lengths, and prompts that share nothing."""

    kind: Literal["azure"] = "azure"

    def recorded(self) -> Iterator[Recorded]:
        lines = lines_of(self.path, AZURE)
        header = next(lines, None)
        if header is None:
            raise LoadTestError(f"{self.path}: has no rows")
        columns = next(csv.reader([header[1]]))
        for number, line in lines:
            cells = dict(zip(columns, next(csv.reader([line])), strict=False))
            try:
                row = _Row.model_validate(cells)
            except ValidationError as error:
                first = error.errors()[0]
                raise bad_row(self.path, number, f"{first['loc'][0]}: {first['msg']}") from None
            yield Recorded(number, row.at.timestamp(), row.prompt, row.output)

    def sessions(self, seed: int, writer: Writer) -> Iterator[Session]:
        return self._replayed(self.kept(), Random(f"{self.kind} {seed}"), writer)

    def _replayed(
        self, rows: Sequence[Recorded], random: Random, writer: Writer
    ) -> Iterator[Session]:
        for row in rows:
            text = writer.write(row.prompt_tokens, random)
            yield Session((Turn((Message("user", text),), row.output_tokens),), at_s=row.at_s)
