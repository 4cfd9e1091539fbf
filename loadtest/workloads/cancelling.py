"""Clients that hang up before the answer has ended: what they leave must not go on costing."""

from dataclasses import replace
from random import Random
from typing import Literal, Self

from pydantic import Field, model_validator

from loadtest.lengths import Lengths
from loadtest.session import Turn
from loadtest.wrapping import Wrapping


class Cancelling(Wrapping):
    """Another workload, of which some clients hang up early."""

    kind: Literal["cancelling"] = "cancelling"
    after_tokens: Lengths | None = Field(
        default=None,
        description="They hang up after so many chunks with content; none: not by chunks.",
    )
    after_s: float = Field(
        default=0.0, ge=0, description="They hang up so many seconds after sending; 0: not by time."
    )

    @model_validator(mode="after")
    def _leaves(self) -> Self:
        if self.after_tokens is None and not self.after_s:
            raise ValueError("give after_tokens or after_s, or nobody hangs up")
        return self

    def changed(self, turn: Turn, random: Random) -> Turn:
        tokens = self.after_tokens.draw(random) if self.after_tokens else 0
        return replace(turn, leave_after_tokens=tokens, leave_after_s=self.after_s)
