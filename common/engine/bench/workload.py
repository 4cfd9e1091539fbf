"""What is asked of an engine, whoever made it: prompts in, tokens out, and when each came.

The same functions drive our engine and the peers it is compared with, each in its own process and
with its own interpreter; so this file needs the standard library alone, and no newer one than other
projects use. A stream is one prompt and its answer. Answers never end early.
"""

import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

_FIRST = 3
"""Lowest token id of a prompt: those below often mark beginning and end."""
_AFTERWARDS = 4
"""Tokens that streams go on for when the long prompt has its first token, so that a gap ends."""
_ENDLESS = 2000


class EndedEarly(Exception):
    """A stream ended before it had been asked to: nothing was measured."""


@dataclass(frozen=True)
class Progress:
    """What one step brought one stream."""

    name: str
    tokens: int
    finished: bool


class Engine(Protocol):
    def add(self, name: str, prompt: list[int], tokens: int) -> None:
        """Greedy, exactly so many tokens."""

    def step(self) -> list[Progress]:
        """Compute a little. Blocks until something was computed or nothing is left to do."""

    def drop(self, name: str) -> None:
        """Stop a running stream."""


@dataclass(frozen=True)
class Answered:
    """Several streams from their common start to the last token."""

    seconds: float
    tokens: int
    decode_seconds: float
    """From the moment when every stream had its first token."""
    decode_tokens: int

    @property
    def tokens_s(self) -> float:
        return self.tokens / self.seconds

    @property
    def decode_tokens_s(self) -> float:
        """0 when one step brought everything."""
        return self.decode_tokens / self.decode_seconds if self.decode_seconds else 0.0


@dataclass(frozen=True)
class Disturbed:
    """Streams into which a long prompt arrives."""

    longest_gap_s: float
    """Between two tokens of one stream, from the prompt's arrival to its first token."""
    idle_gap_s: float
    """Median before the arrival."""
    first_token_s: float
    """Of the long prompt."""


def prompt_of(vocab: int, length: int, seed: int) -> list[int]:
    draw = random.Random(seed)
    return [draw.randrange(_FIRST, vocab) for _ in range(length)]


def first_token(engine: Engine, prompt: list[int]) -> float:
    """Seconds from the arrival of one prompt, alone, to its first token."""
    start = time.perf_counter()
    engine.add("alone", prompt, 1)
    return _drain(engine, ["alone"])["alone"][0] - start


def answer(engine: Engine, prompts: Sequence[list[int]], tokens: int) -> Answered:
    """All prompts arrive at once; until each has `tokens` tokens."""
    names = [f"stream-{number}" for number in range(len(prompts))]
    start = time.perf_counter()
    for name, prompt in zip(names, prompts):  # noqa: B905
        engine.add(name, prompt, tokens)
    times = _drain(engine, names)
    everybody = max(came[0] for came in times.values())
    end = max(came[-1] for came in times.values())
    return Answered(
        seconds=end - start,
        tokens=sum(len(came) for came in times.values()),
        decode_seconds=end - everybody,
        decode_tokens=sum(moment > everybody for came in times.values() for moment in came),
    )


def disturb(
    engine: Engine, prompts: Sequence[list[int]], long_prompt: list[int], before: int
) -> Disturbed:
    """The long prompt arrives when each stream has `before` tokens."""
    times: dict[str, list[float]] = {f"stream-{number}": [] for number in range(len(prompts))}
    for name, prompt in zip(times, prompts):  # noqa: B905
        engine.add(name, prompt, before + _ENDLESS)
    while min(len(came) for came in times.values()) < before:
        _note(engine.step(), times)
    arrival = time.perf_counter()
    engine.add("long", long_prompt, 1)
    watched: dict[str, list[float]] = {"long": [], **times}
    while not watched["long"]:
        if _note(engine.step(), watched) - {"long"}:
            raise EndedEarly("a stream ended while the long prompt was computed")
    enough = {name: len(came) + _AFTERWARDS for name, came in times.items()}
    while any(len(times[name]) < count for name, count in enough.items()):
        _note(engine.step(), times)
    for name in times:
        engine.drop(name)
    first = watched["long"][0]
    gaps = [pair for came in times.values() for pair in zip(came, came[1:])]  # noqa: B905, RUF007
    return Disturbed(
        longest_gap_s=max(end - start for start, end in gaps if end >= arrival and start <= first),
        idle_gap_s=statistics.median(end - start for start, end in gaps if end < arrival),
        first_token_s=first - arrival,
    )


def _drain(engine: Engine, names: Sequence[str]) -> dict[str, list[float]]:
    """When each token came, until all have finished."""
    times: dict[str, list[float]] = {name: [] for name in names}
    left = set(names)
    while left:
        left -= _note(engine.step(), times)
    return times


def _note(progress: Sequence[Progress], times: Mapping[str, list[float]]) -> set[str]:
    """Write down when tokens came. Returns who has finished."""
    now = time.perf_counter()
    for part in progress:
        if part.name in times:
            times[part.name] += [now] * part.tokens
    return {part.name for part in progress if part.finished}
