"""Questions about documents: each request brings a whole document and then asks.

With more documents than one worker can hold, it matters who gets which.
"""

from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Literal

from pydantic import Field

from loadtest.lengths import Fixed, Lengths, Uniform
from loadtest.session import Message, Session, Turn
from loadtest.workload import Workload
from loadtest.writer import Writer


class Documents(Workload):
    """Questions about documents: one user message, the document and then the question."""

    kind: Literal["documents"] = "documents"
    documents: int = Field(
        default=40, ge=1, le=1_000_000, description="How many different documents there are."
    )
    document_tokens: Lengths = Field(
        default=Fixed(tokens=1024), description="Length of a document, drawn once for each."
    )
    question_tokens: Lengths = Field(
        default=Fixed(tokens=64), description="Length of a question; each is another."
    )
    output_tokens: Lengths = Field(
        default=Uniform(low=16, high=48), description="Length of the answer that is asked for."
    )
    order: Literal["random", "round_robin"] = Field(
        default="random",
        description="random (each document as likely as any other) or round_robin.",
    )

    def sessions(self, seed: int, writer: Writer) -> Iterator[Session]:
        random = Random(f"{self.kind} {seed}")
        texts: dict[int, str] = {}
        for number in count():
            in_turn = self.order == "round_robin"
            document = number % self.documents if in_turn else random.randrange(self.documents)
            if document not in texts:
                own = Random(f"{self.kind} {seed} {document}")
                texts[document] = writer.write(self.document_tokens.draw(own), own)
            question = writer.write(self.question_tokens.draw(random), random)
            turn = Turn(
                (Message("user", texts[document] + question),), self.output_tokens.draw(random)
            )
            yield Session((turn,))
