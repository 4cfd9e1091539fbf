"""What all workloads that replay a recorded trace have in common: which rows, how long, when.

Order and gaps stay as recorded; lengths may be divided, for models whose context is shorter than
that of the servers the trace comes from. All rows are read before the first session, so that a bad
one stops a run before it begins.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pydantic import Field

from loadtest.data_file import bad_row
from loadtest.errors import LoadTestError
from loadtest.workload import Workload


@dataclass(frozen=True, slots=True)
class Recorded:
    """One row of a trace."""

    line: int
    at_s: float
    prompt_tokens: int
    output_tokens: int
    hash_ids: tuple[int, ...] = ()
    """Of the blocks of the prompt, where the trace has them."""


class Replay(Workload):
    path: str = Field(description="The trace, relative to the current directory; may be `.gz`.")
    divisor: int = Field(
        default=1, ge=1, description="Lengths are divided by it, and rounded up to whole tokens."
    )
    limit: int = Field(default=0, ge=0, description="Most rows that are replayed; 0: all.")
    longest_tokens: int = Field(
        default=0,
        ge=0,
        description="Rows whose prompt and output, divided, are longer together are left out; "
        "0: none is.",
    )

    @abstractmethod
    def recorded(self) -> Iterator[Recorded]:
        """All rows, undivided, `at_s` from any moment. Raises LoadTestError."""

    def kept(self) -> list[Recorded]:
        """Divided, `at_s` from the first that is kept. Raises LoadTestError, also when none is."""
        rows: list[Recorded] = []
        before = float("-inf")
        for row in self.recorded():
            if row.at_s < before:
                raise bad_row(self.path, row.line, "is earlier than the row before it")
            before = row.at_s
            divided = self._divided(row)
            if self._short_enough(divided):
                rows.append(divided)
            if self.limit and len(rows) == self.limit:
                break
        if before == float("-inf"):
            raise LoadTestError(f"{self.path}: has no rows")
        if not rows:
            raise LoadTestError(
                f"{self.path}: every row is longer than longest_tokens = {self.longest_tokens}, "
                f"divided by {self.divisor}"
            )
        return [replace(row, at_s=row.at_s - rows[0].at_s) for row in rows]

    def _short_enough(self, row: Recorded) -> bool:
        return not self.longest_tokens or (
            row.prompt_tokens + row.output_tokens <= self.longest_tokens
        )

    def _divided(self, row: Recorded) -> Recorded:
        return replace(
            row,
            prompt_tokens=-(-row.prompt_tokens // self.divisor),
            output_tokens=-(-row.output_tokens // self.divisor),
        )
