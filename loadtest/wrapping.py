"""What all workloads that change another's turns have in common: which turns."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from pydantic import Field

from loadtest.session import Session, Turn
from loadtest.workload import Workload
from loadtest.writer import Writer

if TYPE_CHECKING:
    from loadtest.workloads import AnyWorkload


class Wrapping(Workload):
    """The table of workloads, which holds the wrapping ones too, completes `of` when it is made."""

    of: "AnyWorkload" = Field(description="The workload whose turns these are, with its own kind.")
    share: float = Field(
        gt=0, le=1, description="Share of turns that are changed, each drawn by chance."
    )

    @abstractmethod
    def changed(self, turn: Turn, random: Random) -> Turn: ...

    def sessions(self, seed: int, writer: Writer) -> Iterator[Session]:
        inner = self.of.sessions(seed, writer)
        return self._changed(inner, Random(f"{self.kind} {seed}"))

    def _changed(self, inner: Iterator[Session], random: Random) -> Iterator[Session]:
        for session in inner:
            turns = tuple(
                self.changed(turn, random) if random.random() < self.share else turn
                for turn in session.turns
            )
            yield replace(session, turns=turns)
