"""One HTTP request that generates: what its handler waits for, what is told about it afterwards.

Several streams may feed one exchange (a list of prompts), each with several choices; `index` counts
choices over all of them. Text that the handler has not taken yet adds up here, one delta a choice,
so workers are always drained and a slow client costs memory for its own text alone. The exchange
ends when its last stream has; the handler may leave before.
"""

import asyncio
from dataclasses import dataclass, field

from common.domain.errors import ServingError
from common.domain.ledger import Ledger
from services.gateway.streams import Failure, Stream, StreamState
from services.gateway.text_output import ChoiceText, Delta


class AttemptLost(ServingError):
    """A stream of this exchange has failed, or could not begin."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.code = failure.code
        self.retryable = failure.retryable


@dataclass(slots=True)
class Timing:
    """Seconds on the loop's clock."""

    arrived: float
    first_token: float | None = None
    last_token: dict[int, float] = field(default_factory=dict)
    """By index of the choice."""
    ended: float | None = None


@dataclass(slots=True)
class Exchange:
    id: str
    """Ours; names the attempts."""
    client_id: str
    """What the client calls it, or `id`."""
    endpoint: str
    timing: Timing
    prompt_tokens: int = 0
    streams: list[Stream] = field(default_factory=list)
    texts: list[ChoiceText] = field(default_factory=list)
    """One per choice, in index order."""
    disconnected: bool = False
    _pending: dict[int, Delta] = field(default_factory=dict)
    _open: set[int] = field(default_factory=set)
    _left: bool = False
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self, stream: Stream, texts: list[ChoiceText]) -> int:
        """A stream joins; returns the index of its first choice."""
        base = len(self.texts)
        self.streams.append(stream)
        self.texts += texts
        self._open |= set(range(base, len(self.texts)))
        return base

    def feed(self, index: int, delta: Delta) -> None:
        if delta.finish is not None:
            self._open.discard(index)
        if not self._left and delta:
            self._pending.setdefault(index, Delta()).add(delta)
            self._wake.set()

    def stream_ended(self) -> None:
        self._wake.set()

    @property
    def ended(self) -> bool:
        return all(stream.over for stream in self.streams)

    @property
    def failure(self) -> Failure | None:
        return next((s.failure for s in self.streams if s.failure is not None), None)

    async def take(self) -> dict[int, Delta]:
        """What is there, as soon as something is: deltas by index. Empty when every choice has
        ended. Raises AttemptLost when a stream failed and all before it was taken."""
        while not self._pending and self._open:
            if self.failure is not None:
                raise AttemptLost(self.failure)
            self._wake.clear()
            await self._wake.wait()
        pending, self._pending = self._pending, {}
        return pending

    async def first(self) -> dict[int, Delta]:
        """Like `take`, but a stream that failed already is never hidden by text of another."""
        pending = await self.take()
        if self.failure is not None:
            raise AttemptLost(self.failure)
        return pending

    async def ledger(self) -> Ledger:
        """The sum over all streams, when the last of them has ended."""
        while not self.ended:
            self._wake.clear()
            await self._wake.wait()
        total = Ledger()
        for stream in self.streams:
            if stream.ledger is not None:
                total.add(stream.ledger)
        return total

    def leave(self) -> None:
        """The handler has gone: keep no text for it."""
        self._left = True
        self._pending.clear()

    @property
    def prefill_workers(self) -> list[str]:
        """Names; none where the writers computed the prompts themselves."""
        return sorted({stream.prefill for stream in self.streams if stream.prefill})

    @property
    def writers(self) -> list[str]:
        """Names of the workers that sent the tokens."""
        return sorted({stream.writer.name for stream in self.streams if stream.writer is not None})

    @property
    def completion_tokens(self) -> int:
        return sum(text.tokens for text in self.texts)

    @property
    def outcome(self) -> str:
        if self.failure is not None:
            return StreamState.FAILED.value
        if any(stream.state is StreamState.CANCELLED for stream in self.streams):
            return StreamState.CANCELLED.value
        return StreamState.FINISHED.value
