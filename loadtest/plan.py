"""What the loads of a scenario come to for one seed: who is sent when, or who waits in line.

Sessions of open loads are all made before the run begins, so that making them delays nobody. Pure.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from random import Random

from loadtest.arrivals import Trace, Users
from loadtest.errors import LoadTestError
from loadtest.record import SETTLING
from loadtest.scenario import Load
from loadtest.session import Session
from loadtest.writer import Writer


@dataclass(frozen=True, slots=True)
class Due:
    """A session and when it begins, seconds since the run began."""

    at_s: float
    session: Session


@dataclass(frozen=True, slots=True)
class Timetable:
    """An open load."""

    load: str
    due: tuple[Due, ...]


@dataclass(frozen=True, slots=True)
class Queue:
    """A closed load: its users take sessions from here until `stops_s`. They are made before where
    their number is known."""

    load: str
    arrivals: Users
    sessions: Iterator[Session]
    expected: int | None
    begins_s: float
    stops_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Good for one run: queues are used up."""

    loads: tuple[Timetable | Queue, ...]

    @classmethod
    def made(cls, loads: Sequence[Load], seed: int, writer: Writer) -> "Plan":
        """Raises LoadTestError where a load has nothing to send."""
        return cls(tuple(part for load in loads for part in _planned(load, seed, writer)))

    @property
    def expected(self) -> dict[str, int | None]:
        """Requests to come, by load; None: nobody knows."""
        return {
            planned.load: planned.expected
            if isinstance(planned, Queue)
            else sum(len(due.session.turns) for due in planned.due)
            for planned in self.loads
        }

    @property
    def last_s(self) -> float:
        """When the last session begins; 0: nobody knows."""
        ends = [
            planned.stops_s if isinstance(planned, Queue) else planned.due[-1].at_s
            for planned in self.loads
        ]
        return max(ends) if all(map(math.isfinite, ends)) else 0.0


def warmup_sessions(load: Load, seed: int, count: int, writer: Writer) -> list[Session]:
    """None of them comes again when the load runs."""
    made = load.workload.sessions(_seed_of(f"warm-up of {load.name}", seed), writer)
    return list(islice(made, count))


def _planned(load: Load, seed: int, writer: Writer) -> Iterator[Timetable | Queue]:
    sessions = load.workload.sessions(_seed_of(load.name, seed), writer)
    if load.sessions:
        sessions = islice(sessions, load.sessions)
    arrivals = load.arrivals
    if isinstance(arrivals, Users):
        stops_s = load.begins_s + load.seconds if load.seconds else math.inf
        expected = None
        if load.sessions:
            made = list(sessions)
            sessions = iter(made)
            # Fewer may come where the time is limited, too.
            expected = None if load.seconds else sum(len(one.turns) for one in made)
        yield Queue(load.name, arrivals, sessions, expected, load.begins_s, stops_s)
        return
    due = _due(load, seed, sessions)
    if load.seconds:
        due = takewhile(lambda one: one.at_s < load.begins_s + load.seconds, due)
    timetable = tuple(due)
    settling, counted = timetable[: load.settle], timetable[load.settle :]
    if not counted:
        raise LoadTestError(f"load {load.name!r} has no session to send")
    if settling:
        yield Timetable(load.name + SETTLING, settling)
    yield Timetable(load.name, counted)


def _due(load: Load, seed: int, sessions: Iterable[Session]) -> Iterator[Due]:
    arrivals, begins_s = load.arrivals, load.begins_s
    if isinstance(arrivals, Trace):
        before_s = -math.inf
        for session in sessions:
            told_s = _told(load, session)
            if told_s < before_s:
                raise LoadTestError(f"load {load.name!r}: a session is earlier than the one before")
            before_s = told_s
            yield Due(begins_s + told_s / arrivals.speed, session)
    elif not isinstance(arrivals, Users):
        # The random numbers of arrivals and of workloads are apart: either can change alone.
        moments = arrivals.moments(Random(f"arrivals {load.name} {seed}"))
        for at_s, session in zip(moments, sessions, strict=False):
            yield Due(begins_s + at_s, session)


def _told(load: Load, session: Session) -> float:
    if session.at_s is None:
        raise LoadTestError(
            f"load {load.name!r}: {load.workload.kind} has no times of its own to replay;"
            " give other arrivals"
        )
    return session.at_s


def _seed_of(load: str, seed: int) -> int:
    """Two loads of one kind must not send the same prompts."""
    return Random(f"load {load} {seed}").getrandbits(48)
