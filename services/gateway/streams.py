"""One stream of the gateway and its attempt, as a table.

The stream is what a client waits for; the attempt is the try that serves it. This file owns what
is known of both: who writes, how many ids of each choice have come, which choices have ended. It
decides what follows from an event and does nothing itself: `advance` returns actions, the shell
performs them.

Invariants: the ids of a choice are delivered in order, without a gap and without a repeat; a stream
ends exactly once; after the end no event changes anything. An event that has no row in TRANSITIONS
and does not stand in IGNORED is a bug of ours and raises with the stream's story.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

from common.domain.errors import ErrorCode, InvalidTransition
from common.domain.finish import FinishReason
from common.domain.ids import AttemptKey, ProcessId
from common.domain.ledger import Ledger
from common.domain.peer import PeerRef
from common.wire.messages.tokens import TokenLogprobs

STORY_LENGTH = 32
LEDGER_WAIT_S = 2.0
"""For `Finished` after the last token: the writer has promised it."""
LEDGER_WAIT_AFTER_STOP_S = 0.1
"""For `Finished` after a stop string: the writer answers our Cancel with it, if it still can."""


class StreamState(Enum):
    SUBMITTED = "submitted"
    PLACED = "placed"
    STREAMING = "streaming"
    CLOSING = "closing"
    """Every choice has ended; the ledger is still on its way."""
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({StreamState.FINISHED, StreamState.FAILED, StreamState.CANCELLED})


@dataclass(frozen=True, slots=True)
class Failure:
    code: ErrorCode
    message: str
    retryable: bool = False
    retry_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class AttemptPlaced:
    writer: PeerRef
    prefill: str


@dataclass(frozen=True, slots=True)
class TokensCame:
    source: ProcessId
    choice: int
    start: int
    tokens: tuple[int, ...]
    finish: FinishReason | None
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class ChoiceStopped:
    """A stop string was found in the text of this choice."""

    choice: int


@dataclass(frozen=True, slots=True)
class WriterDone:
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    failure: Failure


@dataclass(frozen=True, slots=True)
class WriterLost:
    pass


@dataclass(frozen=True, slots=True)
class RouterLost:
    pass


@dataclass(frozen=True, slots=True)
class ClientGone:
    pass


@dataclass(frozen=True, slots=True)
class LedgerOverdue:
    pass


StreamEvent = (
    AttemptPlaced | TokensCame | ChoiceStopped | WriterDone | AttemptFailed
    | WriterLost | RouterLost | ClientGone | LedgerOverdue
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Watch:
    """Connect to the writer: its death must be seen."""

    writer: PeerRef


@dataclass(frozen=True, slots=True)
class Deliver:
    choice: int
    tokens: tuple[int, ...]
    finish: FinishReason | None
    logprobs: tuple[TokenLogprobs, ...]


@dataclass(frozen=True, slots=True)
class CancelAttempt:
    """Tell router and writer to drop it."""


@dataclass(frozen=True, slots=True)
class RefuseWriter:
    """Tokens came from a process that does not write this stream: cancel them there."""


@dataclass(frozen=True, slots=True)
class AwaitLedger:
    seconds: float


@dataclass(frozen=True, slots=True)
class End:
    """Nothing follows. `failure` is None unless the state is FAILED."""

    failure: Failure | None = None


Action = Watch | Deliver | CancelAttempt | RefuseWriter | AwaitLedger | End

_S = StreamState
_Step = tuple[StreamState, tuple[Action, ...]]

TRANSITIONS: dict[tuple[StreamState, type[StreamEvent]], frozenset[StreamState]] = {
    (_S.SUBMITTED, AttemptPlaced): frozenset({_S.PLACED}),
    (_S.SUBMITTED, TokensCame): frozenset({_S.STREAMING, _S.CLOSING, _S.FAILED}),
    (_S.SUBMITTED, WriterDone): frozenset({_S.FAILED}),
    (_S.SUBMITTED, AttemptFailed): frozenset({_S.FAILED}),
    (_S.SUBMITTED, RouterLost): frozenset({_S.FAILED}),
    (_S.SUBMITTED, ClientGone): frozenset({_S.CANCELLED}),
    (_S.PLACED, TokensCame): frozenset({_S.PLACED, _S.STREAMING, _S.CLOSING, _S.FAILED}),
    (_S.PLACED, WriterDone): frozenset({_S.FAILED}),
    (_S.PLACED, AttemptFailed): frozenset({_S.FAILED}),
    (_S.PLACED, WriterLost): frozenset({_S.FAILED}),
    (_S.PLACED, ClientGone): frozenset({_S.CANCELLED}),
    (_S.STREAMING, AttemptPlaced): frozenset({_S.STREAMING}),
    (_S.STREAMING, TokensCame): frozenset({_S.STREAMING, _S.CLOSING, _S.FAILED}),
    (_S.STREAMING, ChoiceStopped): frozenset({_S.STREAMING, _S.CLOSING}),
    (_S.STREAMING, WriterDone): frozenset({_S.FAILED}),
    (_S.STREAMING, AttemptFailed): frozenset({_S.FAILED}),
    (_S.STREAMING, WriterLost): frozenset({_S.FAILED}),
    (_S.STREAMING, ClientGone): frozenset({_S.CANCELLED}),
    (_S.CLOSING, AttemptPlaced): frozenset({_S.CLOSING}),
    (_S.CLOSING, WriterDone): frozenset({_S.FINISHED}),
    (_S.CLOSING, AttemptFailed): frozenset({_S.FINISHED}),
    (_S.CLOSING, WriterLost): frozenset({_S.FINISHED}),
    (_S.CLOSING, LedgerOverdue): frozenset({_S.FINISHED}),
}
"""(state, event) -> the states it may lead to."""

IGNORED: frozenset[tuple[StreamState, type[StreamEvent]]] = frozenset(
    {
        # No writer is known yet: the router speaks for the attempt.
        (_S.SUBMITTED, WriterLost),
        # A repeated Placed says nothing new.
        (_S.PLACED, AttemptPlaced),
        # The writer goes on without the router.
        (_S.PLACED, RouterLost),
        (_S.STREAMING, RouterLost),
        (_S.CLOSING, RouterLost),
        # All text is out, or the Cancel that followed the stop string is under way.
        (_S.CLOSING, ClientGone),
        (_S.CLOSING, TokensCame),
        # The same row may hold a finish and a stop string of one choice.
        (_S.CLOSING, ChoiceStopped),
    }
    | {
        (state, event)
        for state in ENDED
        for event in (
            AttemptPlaced, TokensCame, ChoiceStopped, WriterDone, AttemptFailed,
            WriterLost, RouterLost, ClientGone, LedgerOverdue,
        )
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoryLine:
    at: float
    event: str
    before: StreamState
    after: StreamState


@dataclass(slots=True)
class Stream:
    """What the gateway knows of one request and its attempt. Changed by `advance` alone."""

    key: AttemptKey
    choices: int
    max_tokens: int
    state: StreamState = StreamState.SUBMITTED
    writer: ProcessId | None = None
    prefill: str = ""
    received: list[int] = field(default_factory=list)
    """Ids of each choice so far."""
    ended: set[int] = field(default_factory=set)
    ledger: Ledger | None = None
    """None until the writer has sent it."""
    failure: Failure | None = None
    story: deque[StoryLine] = field(default_factory=lambda: deque(maxlen=STORY_LENGTH))

    def __post_init__(self) -> None:
        self.received = [0] * self.choices

    @property
    def over(self) -> bool:
        return self.state in ENDED


def advance(stream: Stream, event: StreamEvent, now: float) -> tuple[Action, ...]:
    """Take `event` in and return what must be done about it, in order."""
    before = stream.state
    place = (before, type(event))
    if place in IGNORED:
        return ()
    targets = TRANSITIONS.get(place)
    if targets is None:
        raise InvalidTransition(f"{stream.key}: {event} in {before.name}; {tell(stream)}")
    after, actions = _react(stream, event)
    if after not in targets:
        raise InvalidTransition(f"{stream.key}: {event} led to {after.name}; {tell(stream)}")
    stream.state = after
    if not isinstance(event, TokensCame) or after is not before:
        stream.story.append(StoryLine(now, type(event).__name__, before, after))
    return actions


def _react(stream: Stream, event: StreamEvent) -> _Step:
    match event:
        case AttemptPlaced(writer, prefill):
            return _placed(stream, writer, prefill)
        case TokensCame():
            return _tokens(stream, event)
        case ChoiceStopped(choice):
            return _stopped(stream, choice)
        case WriterDone(ledger):
            return _done(stream, ledger)
        case AttemptFailed() | WriterLost() | RouterLost():
            if stream.state is StreamState.CLOSING:
                return StreamState.FINISHED, (End(),)
            return _fail(stream, _failure(event))
        case ClientGone():
            return StreamState.CANCELLED, (CancelAttempt(), End())
        case LedgerOverdue():
            return StreamState.FINISHED, (End(),)
        case _:
            assert_never(event)


def _placed(stream: Stream, writer: PeerRef, prefill: str) -> _Step:
    stream.prefill = prefill
    stream.writer = writer.id
    after = stream.state
    return StreamState.PLACED if after is StreamState.SUBMITTED else after, (Watch(writer),)


def _tokens(stream: Stream, event: TokensCame) -> _Step:
    if stream.writer is not None and stream.writer != event.source:
        return stream.state, (RefuseWriter(),)
    if not 0 <= event.choice < stream.choices:
        return _fail(stream, _broken(f"tokens of choice {event.choice}"), CancelAttempt())
    stream.writer = event.source
    if event.choice in stream.ended:
        return StreamState.STREAMING, ()
    have = stream.received[event.choice]
    known = have - event.start
    if known < 0:
        message = f"token {have} of choice {event.choice} is missing"
        return _fail(stream, _broken(message), CancelAttempt())
    tokens = event.tokens[known:]
    if have + len(tokens) > stream.max_tokens:
        return _fail(stream, _broken("more tokens than were asked for"), CancelAttempt())
    if event.finish in (FinishReason.CANCELLED, FinishReason.ERROR):
        return _fail(stream, _broken(f"the writer ended it with {event.finish.name}"))
    if not tokens and (event.finish is None or known > len(event.tokens)):
        return StreamState.STREAMING, ()
    stream.received[event.choice] += len(tokens)
    deliver = Deliver(event.choice, tokens, event.finish, event.logprobs[known:])
    if event.finish is None:
        return StreamState.STREAMING, (deliver,)
    stream.ended.add(event.choice)
    if len(stream.ended) < stream.choices:
        return StreamState.STREAMING, (deliver,)
    return StreamState.CLOSING, (deliver, AwaitLedger(LEDGER_WAIT_S))


def _stopped(stream: Stream, choice: int) -> _Step:
    stream.ended.add(choice)
    if len(stream.ended) < stream.choices:
        return StreamState.STREAMING, ()
    return StreamState.CLOSING, (CancelAttempt(), AwaitLedger(LEDGER_WAIT_AFTER_STOP_S))


def _done(stream: Stream, ledger: Ledger) -> _Step:
    stream.ledger = ledger
    if stream.state is StreamState.CLOSING:
        return StreamState.FINISHED, (End(),)
    # It was told to stop by somebody else, who took us for dead: nothing is wrong with the request.
    message = "the worker gave this request up before its last token"
    return _fail(
        stream, Failure(ErrorCode.WORKER_LOST, message, retryable=True, retry_after_ms=1000)
    )


def _failure(event: AttemptFailed | WriterLost | RouterLost) -> Failure:
    match event:
        case AttemptFailed(failure):
            return failure
        case WriterLost():
            message = "the worker that served this request is gone"
            return Failure(ErrorCode.WORKER_LOST, message, retryable=True, retry_after_ms=1000)
        case RouterLost():
            message = "the router went away before the request was placed"
            return Failure(ErrorCode.ROUTER_LOST, message, retryable=True, retry_after_ms=1000)
        case _:
            assert_never(event)


def _fail(stream: Stream, failure: Failure, *before: Action) -> _Step:
    stream.failure = failure
    return StreamState.FAILED, (*before, End(failure))


def _broken(what: str) -> Failure:
    message = f"the stream of tokens is broken: {what}"
    return Failure(ErrorCode.INTERNAL, message, retryable=True)


def tell(stream: Stream) -> str:
    """The story in one line, for an error message."""
    return " ".join(
        f"{line.event}:{line.before.value}->{line.after.value}" for line in stream.story
    )


def check_invariants(stream: Stream) -> None:
    """Raises AssertionError; used by tests and the simulator after every event."""
    assert len(stream.received) == stream.choices
    assert all(0 <= count <= stream.max_tokens for count in stream.received)
    assert stream.ended <= set(range(stream.choices))
    whole = len(stream.ended) == stream.choices
    assert not whole or stream.state not in (StreamState.SUBMITTED, StreamState.STREAMING)
    assert whole or stream.state not in (StreamState.CLOSING, StreamState.FINISHED)
    assert (stream.failure is not None) == (stream.state is StreamState.FAILED)
