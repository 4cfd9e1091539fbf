"""The life of an attempt in the router, from Submit until nothing is held for it.

    queued ── planned ──> assigned ── accepted ──> accepted ── prompt done ──> streaming ──> ended
       ^                     │                        │                           │
       └────── refused ──────┘          cancel: cancelling until the writer has let go, or is lost

`advance` is the only thing that changes a record's state. It returns what is to be done; doing it
is the shell's. An event that a race can bring is listed as ignorable, any other that has no row
raises with the record's story. A router never retries by itself once a writer has accepted.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import assert_never

from common.domain.errors import ErrorCode, InvalidTransition
from common.domain.ids import ProcessId
from common.domain.peer import PeerRef
from common.wire.messages.submit import Submit
from services.router.placement import Need, Placement, Refusal

STORY_LENGTH = 32
CANCEL_LAPSE_S = 10.0
"""A writer that has not answered a Cancel by then has lost the attempt's lease anyway."""


class State(StrEnum):
    QUEUED = "queued"
    ASSIGNED = "assigned"
    ACCEPTED = "accepted"
    STREAMING = "streaming"
    CANCELLING = "cancelling"
    ENDED = "ended"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL = frozenset({State.ENDED, State.FAILED, State.CANCELLED})
PLACED = frozenset({State.ASSIGNED, State.ACCEPTED, State.STREAMING, State.CANCELLING})


@dataclass(frozen=True, slots=True)
class Planned:
    placement: Placement


@dataclass(frozen=True, slots=True)
class Hopeless:
    """No plan is possible: refused, expired, or the queue is full."""

    refusal: Refusal


@dataclass(frozen=True, slots=True)
class WriterAccepted:
    pass


@dataclass(frozen=True, slots=True)
class WriterBusy:
    """It will not take the attempt now, or the Assign could not be sent."""


@dataclass(frozen=True, slots=True)
class WriterFailed:
    """It cannot serve the attempt at all."""

    refusal: Refusal


@dataclass(frozen=True, slots=True)
class PromptComputed:
    pass


@dataclass(frozen=True, slots=True)
class WriterEnded:
    pass


@dataclass(frozen=True, slots=True)
class WriterLost:
    pass


@dataclass(frozen=True, slots=True)
class CancelWanted:
    """By the gateway, by its death, or by a later attempt of the same request."""


@dataclass(frozen=True, slots=True)
class CancelLapsed:
    pass


Event = (
    Planned | Hopeless | WriterAccepted | WriterBusy | WriterFailed | PromptComputed
    | WriterEnded | WriterLost | CancelWanted | CancelLapsed
)  # fmt: skip
EVENTS: tuple[type[Event], ...] = (
    Planned, Hopeless, WriterAccepted, WriterBusy, WriterFailed, PromptComputed,
    WriterEnded, WriterLost, CancelWanted, CancelLapsed,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SendAssign:
    placement: Placement
    queue_ms: float


@dataclass(frozen=True, slots=True)
class SendPlaced:
    placement: Placement


@dataclass(frozen=True, slots=True)
class SendFailed:
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class SendCancel:
    writer: ProcessId


@dataclass(frozen=True, slots=True)
class Requeue:
    """Back to its place in the queue."""


@dataclass(frozen=True, slots=True)
class LeaveQueue:
    pass


@dataclass(frozen=True, slots=True)
class TakePromptLoad:
    """The prompt weighs on nobody any more."""


@dataclass(frozen=True, slots=True)
class TakeLoad:
    """Nothing of the attempt weighs on anybody any more."""

    held: bool = True
    """The worker had taken it on, so that it now has more room than before."""


Action = (
    SendAssign | SendPlaced | SendFailed | SendCancel
    | Requeue | LeaveQueue | TakePromptLoad | TakeLoad
)  # fmt: skip

TRANSITIONS: Mapping[tuple[State, type[Event]], State] = {
    (State.QUEUED, Planned): State.ASSIGNED,
    (State.QUEUED, Hopeless): State.FAILED,
    (State.QUEUED, CancelWanted): State.CANCELLED,
    (State.ASSIGNED, WriterAccepted): State.ACCEPTED,
    (State.ASSIGNED, WriterBusy): State.QUEUED,
    (State.ASSIGNED, WriterFailed): State.FAILED,
    # The gateway died, and its writer saw that before we did.
    (State.ASSIGNED, WriterEnded): State.ENDED,
    (State.ASSIGNED, WriterLost): State.FAILED,
    (State.ASSIGNED, CancelWanted): State.CANCELLING,
    (State.ACCEPTED, PromptComputed): State.STREAMING,
    (State.ACCEPTED, WriterEnded): State.ENDED,
    (State.ACCEPTED, WriterFailed): State.FAILED,
    (State.ACCEPTED, WriterLost): State.FAILED,
    (State.ACCEPTED, CancelWanted): State.CANCELLING,
    (State.STREAMING, WriterEnded): State.ENDED,
    (State.STREAMING, WriterFailed): State.FAILED,
    (State.STREAMING, WriterLost): State.FAILED,
    (State.STREAMING, CancelWanted): State.CANCELLING,
    (State.CANCELLING, WriterBusy): State.CANCELLED,
    (State.CANCELLING, WriterFailed): State.CANCELLED,
    (State.CANCELLING, WriterEnded): State.CANCELLED,
    (State.CANCELLING, WriterLost): State.CANCELLED,
    (State.CANCELLING, CancelLapsed): State.CANCELLED,
}

IGNORED: frozenset[tuple[State, type[Event]]] = frozenset(
    {
        # On its way when our Cancel was.
        (State.CANCELLING, WriterAccepted),
        (State.CANCELLING, PromptComputed),
        (State.CANCELLING, CancelWanted),
        # Said twice: changes nothing.
        (State.STREAMING, PromptComputed),
    }
)


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a story."""

    at: float
    before: State
    event: str
    after: State


@dataclass(slots=True)
class Record:
    """One attempt. Everything but `state` and what `advance` sets with it is fixed at Submit."""

    submit: Submit
    gateway: PeerRef
    need: Need
    arrived_at: float
    deadline_at: float | None = None
    state: State = State.QUEUED
    placement: Placement | None = None
    since: float = 0.0
    """When it came into its state."""
    queued_s: float = 0.0
    refused_at: dict[ProcessId, float] = field(default_factory=dict)
    """Writers that would not take it."""
    story: deque[Step] = field(default_factory=lambda: deque(maxlen=STORY_LENGTH))

    def __post_init__(self) -> None:
        self.since = self.arrived_at

    def told(self) -> str:
        return "; ".join(f"{s.at:.3f} {s.before} {s.event} -> {s.after}" for s in self.story)


def advance(record: Record, event: Event, now: float) -> tuple[Action, ...]:
    """Raises InvalidTransition for an event that has no place in the record's state."""
    before = record.state
    pair = (before, type(event))
    if pair in IGNORED:
        return ()
    after = TRANSITIONS.get(pair)
    if after is None:
        raise InvalidTransition(
            f"{record.submit.key}: {type(event).__name__} while {before}: {record.told()}"
        )
    actions = _act(record, event, now)
    record.state = after
    record.since = now
    record.story.append(Step(now, before, type(event).__name__, after))
    return actions


def _act(record: Record, event: Event, now: float) -> tuple[Action, ...]:
    if record.state is State.CANCELLING:
        return (TakeLoad(),)
    match event:
        case Planned() | Hopeless():
            return _decided(record, event, now)
        case WriterAccepted():
            return (SendPlaced(_placed(record)),)
        case WriterBusy():
            record.refused_at[_placed(record).writer] = now
            record.placement = None
            return (TakeLoad(held=False), Requeue())
        case WriterFailed(refusal):
            return (TakeLoad(held=record.state is not State.ASSIGNED), SendFailed(refusal))
        case PromptComputed():
            return (TakePromptLoad(),)
        case WriterLost():
            return (TakeLoad(), SendFailed(_lost(record)))
        case CancelWanted():
            return _cancelled(record)
        case WriterEnded() | CancelLapsed():
            return (TakeLoad(),)
        case _:
            assert_never(event)


def _decided(record: Record, event: Planned | Hopeless, now: float) -> tuple[Action, ...]:
    if isinstance(event, Hopeless):
        return (LeaveQueue(), SendFailed(event.refusal))
    record.placement = event.placement
    record.queued_s += now - record.since
    return (LeaveQueue(), SendAssign(event.placement, record.queued_s * 1000.0))


def _cancelled(record: Record) -> tuple[Action, ...]:
    if record.state is State.QUEUED:
        return (LeaveQueue(),)
    return (SendCancel(_placed(record).writer),)


def _placed(record: Record) -> Placement:
    if record.placement is None:
        raise InvalidTransition(f"{record.submit.key}: {record.state} without a placement")
    return record.placement


def _lost(record: Record) -> Refusal:
    name = _placed(record).writer.name
    return Refusal(ErrorCode.WORKER_LOST, f"worker {name} was lost", retryable=True)


def check_invariants(record: Record) -> None:
    """Raises InvalidTransition with the story if the record contradicts itself."""
    problems = []
    if record.state in PLACED and record.placement is None:
        problems.append("placed nowhere")
    if record.state is State.QUEUED and record.placement is not None:
        problems.append("queued and placed")
    if record.story and record.story[-1].after is not record.state:
        problems.append("its story ends elsewhere")
    if any(a.after is not b.before for a, b in pairwise(record.story)):
        problems.append("its story has a hole")
    if problems:
        raise InvalidTransition(f"{record.submit.key} is {', '.join(problems)}: {record.told()}")
