"""Clients that read slower than the server writes: they must cost nobody else anything."""

from dataclasses import replace
from random import Random
from typing import Literal

from pydantic import Field

from loadtest.session import Turn
from loadtest.wrapping import Wrapping


class SlowReaders(Wrapping):
    """Another workload, of which some clients read slowly."""

    kind: Literal["slow_readers"] = "slow_readers"
    bytes_s: float = Field(gt=0, description="How much they read in a second.")

    def changed(self, turn: Turn, random: Random) -> Turn:
        return replace(turn, read_bytes_s=self.bytes_s)
