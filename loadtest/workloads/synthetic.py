"""Requests that have nothing in common but their lengths' distribution."""

from collections.abc import Iterator
from random import Random
from typing import Literal

from pydantic import Field

from loadtest.lengths import Lengths
from loadtest.session import Message, Session, Turn
from loadtest.workload import Workload
from loadtest.writer import Writer


class Synthetic(Workload):
    """Requests that have nothing in common but their lengths' distribution."""

    kind: Literal["synthetic"] = "synthetic"
    prompt_tokens: Lengths = Field(description="Length of the user's message.")
    output_tokens: Lengths = Field(description="Length of the answer that is asked for.")

    def sessions(self, seed: int, writer: Writer) -> Iterator[Session]:
        random = Random(f"{self.kind} {seed}")
        while True:
            text = writer.write(self.prompt_tokens.draw(random), random)
            turn = Turn((Message("user", text),), self.output_tokens.draw(random))
            yield Session((turn,))
