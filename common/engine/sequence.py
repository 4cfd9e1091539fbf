"""One choice of one request inside one engine: its tokens, its blocks, its state.

    WAITING --admit--> HELD --start--> RUNNING <--resume/preempt--> PREEMPTED
                         any of them --finish--> FINISHED

HELD means: blocks for the whole prompt are reserved and somebody outside may be writing into them
(KV arriving from a prefill worker or the kvstore). The engine never frees the blocks of a HELD
sequence by itself; only the one who drains those writes may ask for it. `computed` counts the
leading tokens whose KV lies in the blocks; a sequence whose `computed` is one short of its length
decodes, any other prefills.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from common.domain.errors import InvalidTransition
from common.domain.finish import FinishReason
from common.domain.ids import AttemptKey, UnitHash
from common.domain.sampling import SamplingParams
from common.engine.runner import Draw, Int32Array


class State(Enum):
    WAITING = "waiting"
    HELD = "held"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"


class Event(Enum):
    ADMIT = "admit"
    START = "start"
    PREEMPT = "preempt"
    RESUME = "resume"
    FINISH = "finish"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.WAITING, Event.ADMIT): State.HELD,
    (State.HELD, Event.START): State.RUNNING,
    (State.RUNNING, Event.PREEMPT): State.PREEMPTED,
    (State.PREEMPTED, Event.RESUME): State.RUNNING,
    (State.WAITING, Event.FINISH): State.FINISHED,
    (State.HELD, Event.FINISH): State.FINISHED,
    (State.RUNNING, Event.FINISH): State.FINISHED,
    (State.PREEMPTED, Event.FINISH): State.FINISHED,
}
STORY_LENGTH = 32


@dataclass(slots=True, eq=False)
class Sequence:
    """Mutable record; every field but `state` is written by the engine and the scheduler alone."""

    key: AttemptKey
    choice: int
    prompt: list[int]
    params: SamplingParams
    arrival: int
    """Order of admission: the youngest is preempted first."""
    root: UnitHash
    """Parent of the first unit; empty when nothing of the request may be cached."""
    output: list[int] = field(default_factory=list)
    computed: int = 0
    table: list[int] = field(default_factory=list)
    units: list[UnitHash] = field(default_factory=list)
    """Hashes of the leading whole units, known so far."""
    named: int = 0
    """Leading blocks already offered to the prefix cache."""
    recompute_until: int = 0
    """Tokens below this were computed before a preemption: doing so again is no prompt work."""
    preemptions: int = 0
    state: State = State.WAITING
    finish: FinishReason | None = None
    story: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=STORY_LENGTH))
    _array: Int32Array = field(init=False, default_factory=lambda: np.zeros(0, dtype=np.int32))
    """`_array_of` as it was when it had so many blocks: a table grows or is replaced, no entry of
    it ever changes."""
    _array_of: list[int] | None = field(init=False, default=None)
    _draw: Draw | None = field(init=False, default=None)
    """The last one for this choice: of its fields only the row can change."""

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.output)

    @property
    def remaining(self) -> int:
        """Tokens whose KV is still to be computed; 1 means decode."""
        return len(self.prompt) + len(self.output) - self.computed

    @property
    def prompt_done(self) -> bool:
        return self.computed >= len(self.prompt)

    def tokens(self, start: int, stop: int) -> list[int]:
        """Tokens start..stop of prompt and output laid end to end."""
        border = len(self.prompt)
        if stop <= border:
            return self.prompt[start:stop]
        if start >= border:
            return self.output[start - border : stop - border]
        return self.prompt[start:] + self.output[: stop - border]

    @property
    def newest(self) -> int:
        return self.output[-1] if self.output else self.prompt[-1]

    def table_array(self) -> Int32Array:
        """Shared by all steps between two changes of the table: not to be written."""
        if self._array_of is not self.table or len(self._array) != len(self.table):
            self._array_of = self.table
            self._array = np.array(self.table, dtype=np.int32)
        return self._array

    def draw(self, row: int, choice: int) -> Draw:
        """A draw from this row for one of the choices that the sequence speaks for."""
        draw = self._draw
        if draw is None or draw.row != row or draw.choice != choice:
            draw = Draw(row, self.params, choice, self.prompt, self.output)
            if choice == self.choice:
                self._draw = draw
        return draw

    def advance(self, event: Event) -> None:
        """Raises InvalidTransition with the story on an event that has no row."""
        target = TRANSITIONS.get((self.state, event))
        if target is None:
            raise InvalidTransition(
                f"{self.key}.{self.choice}: {event.value} while {self.state.value}; "
                f"story {list(self.story)}"
            )
        self.story.append((event.value, target.value))
        self.state = target
