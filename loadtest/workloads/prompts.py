"""Prompts that people wrote, from a file: for drafters and answers, whose speed and text depend on
what is said."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Literal

from pydantic import Field

from loadtest.lengths import Fixed, Lengths
from loadtest.prompt_file import Conversation, FormatName, format_of, read_conversations
from loadtest.session import Message, Session, Turn
from loadtest.workload import Workload
from loadtest.writer import Writer


class Prompts(Workload):
    """The prompts of a file; a conversation of several is a session of so many turns."""

    kind: Literal["prompts"] = "prompts"
    path: str = Field(description="The file, relative to the current directory; may be `.gz`.")
    format: FormatName | Literal["auto"] = Field(
        default="auto",
        description="One of those under data files; auto: told from the end of the name and the "
        "first line.",
    )
    output_tokens: Lengths = Field(
        default=Fixed(tokens=256), description="Length of each answer that is asked for."
    )
    shuffle: bool = Field(
        default=True, description="In an order drawn from the seed; false: as in the file."
    )
    repeat: bool = Field(
        default=False, description="Begin again at the end, shuffled anew, without end."
    )

    def sessions(self, seed: int, writer: Writer) -> Iterator[Session]:
        form = format_of(self.path) if self.format == "auto" else self.format
        conversations = read_conversations(self.path, form)
        return self._asked(conversations, Random(f"{self.kind} {seed}"))

    def _asked(self, conversations: Sequence[Conversation], random: Random) -> Iterator[Session]:
        while True:
            order = list(conversations)
            if self.shuffle:
                random.shuffle(order)
            for said in order:
                yield Session(
                    tuple(
                        Turn((Message("user", text),), self.output_tokens.draw(random))
                        for text in said
                    )
                )
            if not self.repeat:
                return
