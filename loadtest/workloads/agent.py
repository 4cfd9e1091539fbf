"""Coding agents: a long first prompt, then many short turns that each bring a tool's result.

The defaults are a sixteenth of what is reported of real ones (a median of 33 turns, 2,200 tokens
more each turn, 131 tokens read for one written, a median of 5 s between turns), so that a session
fits a context of 8,192 tokens. Times are not divided.
"""

from collections.abc import Iterator
from random import Random
from typing import Literal

from pydantic import Field

from loadtest.lengths import Fixed, Lengths, Uniform
from loadtest.session import Message, Session, Turn
from loadtest.workload import Workload
from loadtest.writer import Writer


class Agent(Workload):
    """Sessions of a coding agent: a long first prompt, then a tool's result in each turn."""

    kind: Literal["agent"] = "agent"
    turns: Lengths = Field(
        default=Uniform(low=22, high=44), description="How many turns a session has."
    )
    context_tokens: Lengths = Field(
        default=Fixed(tokens=1024),
        description="Length of the first prompt: instructions and a task.",
    )
    tool_tokens: Lengths = Field(
        default=Uniform(low=32, high=192),
        description="Length of the result that each later turn brings.",
    )
    output_tokens: Lengths = Field(
        default=Uniform(low=10, high=40), description="Length of each answer that is asked for."
    )
    tool_s: float = Field(
        default=7.2,
        ge=0,
        description="Mean of the exponential gap between an answer and the tool's result (its "
        "median is 0.69 of that); 0: none.",
    )

    def sessions(self, seed: int, writer: Writer) -> Iterator[Session]:
        random = Random(f"{self.kind} {seed}")
        while True:
            later = self.turns.draw(random) - 1
            first = self._turn(self.context_tokens, 0.0, random, writer)
            rest = (
                self._turn(self.tool_tokens, self._gap_s(random), random, writer)
                for _ in range(later)
            )
            yield Session((first, *rest))

    def _gap_s(self, random: Random) -> float:
        return random.expovariate(1 / self.tool_s) if self.tool_s else 0.0

    def _turn(self, lengths: Lengths, pause_s: float, random: Random, writer: Writer) -> Turn:
        text = writer.write(lengths.draw(random), random)
        return Turn((Message("user", text),), self.output_tokens.draw(random), pause_s=pause_s)
