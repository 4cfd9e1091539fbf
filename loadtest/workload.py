"""What every workload is: parameters with a kind, and a seed's sessions.

One workload is one file in workloads/ and one line of its table. The same parameters, seed and
writer give the same sessions, whoever asks and however many are taken.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from loadtest.session import Session
from loadtest.writer import Writer


class Workload(BaseModel, ABC):
    """Each kind has a field `kind` with its own name as the only value."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: str

    @abstractmethod
    def sessions(self, seed: int, writer: Writer) -> Iterator[Session]:
        """Without end, unless the workload has only so many. Raises LoadTestError when a file it
        needs is not there or is not what it should be."""
