"""Chats: every turn brings the whole conversation again, so all but its end was seen before."""

from collections.abc import Iterator
from random import Random
from typing import Literal

from pydantic import Field

from loadtest.lengths import Lengths, Uniform
from loadtest.session import Message, Session, Turn
from loadtest.workload import Workload
from loadtest.writer import Writer


class MultiTurn(Workload):
    """Chats of several turns, with pauses to think between an answer and the next question."""

    kind: Literal["multi_turn"] = "multi_turn"
    turns: Lengths = Field(
        default=Uniform(low=2, high=8), description="How many turns a session has."
    )
    system_tokens: int = Field(
        default=0,
        ge=0,
        description="Length of a system prompt that all sessions share; 0: there is none.",
    )
    prompt_tokens: Lengths = Field(
        default=Uniform(low=16, high=128), description="Length of each message of the user."
    )
    output_tokens: Lengths = Field(
        default=Uniform(low=32, high=128), description="Length of each answer that is asked for."
    )
    think_s: float = Field(
        default=0.0,
        ge=0,
        description="Mean of the exponential pause between an answer and the next turn; 0: none.",
    )

    def sessions(self, seed: int, writer: Writer) -> Iterator[Session]:
        random = Random(f"{self.kind} {seed}")
        system: tuple[Message, ...] = ()
        if self.system_tokens:
            text = writer.write(self.system_tokens, Random(f"{self.kind} {seed} system"))
            system = (Message("system", text),)
        while True:
            turns = self.turns.draw(random)
            first = self._turn(system, 0.0, random, writer)
            later = (
                self._turn((), self._pause_s(random), random, writer) for _ in range(turns - 1)
            )
            yield Session((first, *later))

    def _pause_s(self, random: Random) -> float:
        return random.expovariate(1 / self.think_s) if self.think_s else 0.0

    def _turn(
        self, before: tuple[Message, ...], pause_s: float, random: Random, writer: Writer
    ) -> Turn:
        text = writer.write(self.prompt_tokens.draw(random), random)
        messages = (*before, Message("user", text))
        return Turn(messages, self.output_tokens.draw(random), pause_s=pause_s)
