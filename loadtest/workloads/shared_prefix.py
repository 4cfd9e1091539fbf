"""Groups of requests that share a system prompt, some groups more popular than others.

The lengths and the users' texts come from one stream of chance and the prefixes each from its own,
so that with `shared` off everything is the same but that no two prefixes are.
"""

from collections.abc import Iterator
from itertools import accumulate, count
from random import Random
from typing import Literal

from pydantic import Field

from loadtest.lengths import Fixed, Lengths, Uniform
from loadtest.session import Message, Session, Turn
from loadtest.workload import Workload
from loadtest.writer import Writer


class SharedPrefix(Workload):
    """Requests of groups: those of a group begin with the same system prompt."""

    kind: Literal["shared_prefix"] = "shared_prefix"
    groups: int = Field(
        default=16, ge=1, le=1_000_000, description="How many different system prompts there are."
    )
    zipf: float = Field(
        default=0.0,
        ge=0,
        description="The n-th group is drawn in proportion to 1 / n^zipf; 0: all alike.",
    )
    prefix_tokens: Lengths = Field(
        default=Fixed(tokens=1024),
        description="Length of a system prompt, drawn once for each group.",
    )
    prompt_tokens: Lengths = Field(
        default=Fixed(tokens=64), description="Length of the user's message, which nobody shares."
    )
    output_tokens: Lengths = Field(
        default=Uniform(low=16, high=48), description="Length of the answer that is asked for."
    )
    shared: bool = Field(
        default=True,
        description="false: the same lengths, but every system prompt is unique, as a baseline "
        "without anything to reuse.",
    )

    def sessions(self, seed: int, writer: Writer) -> Iterator[Session]:
        random = Random(f"{self.kind} {seed}")
        weights = list(accumulate(1 / rank**self.zipf for rank in range(1, self.groups + 1)))
        prefixes: dict[int, str] = {}
        for number in count():
            group = random.choices(range(self.groups), cum_weights=weights)[0]
            key = group if self.shared else -number
            if (prefix := prefixes.get(key)) is None:
                prefix = self._prefix(f"{self.kind} {seed} {group}", key, writer)
                if self.shared:
                    prefixes[group] = prefix
            user = writer.write(self.prompt_tokens.draw(random), random)
            messages = (Message("system", prefix), Message("user", user))
            yield Session((Turn(messages, self.output_tokens.draw(random)),))

    def _prefix(self, group: str, key: int, writer: Writer) -> str:
        """As long as that of its group, in words of its key."""
        tokens = self.prefix_tokens.draw(Random(group))
        return writer.write(tokens, Random(f"{group} text {key}"))
