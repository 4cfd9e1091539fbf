"""Runs a plan against one server and returns what was seen.

Open loads keep an absolute schedule, whatever the server does. The moment a turn was meant for
stands in its record beside the moment it was sent, so a harness that cannot keep up shows it. A
turn after the first is due when the answer before it has ended and its pause has passed; an answer
that did not finish ends the session.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol
from uuid import NAMESPACE_OID, uuid5

from loadtest.errors import LoadTestError
from loadtest.plan import Plan, Queue, Timetable
from loadtest.record import Outcome, Record
from loadtest.session import Message, Session, Turn


class Asks(Protocol):
    """A `Client`."""

    async def ask(self, conversation: Sequence[Message], turn: Turn, record: Record) -> str: ...


class Watches(Protocol):
    """A `Progress`."""

    def sent(self, load: str) -> object: ...

    def ended(self, record: Record) -> object: ...


EXACT_S = 1e-4
"""Timers of uvloop are whole milliseconds, and so may be early by half of one."""


class Drive:
    """One run. `now` is seconds since the run began and may be negative before that."""

    def __init__(
        self, client: Asks, now: Callable[[], float], progress: Watches, name: str
    ) -> None:
        self._client = client
        self._now = now
        self._progress = progress
        # A UUID, because there are servers that refuse any other X-Request-Id.
        self._ids = uuid5(NAMESPACE_OID, name)
        self.records: list[Record] = []
        """Of the requests that have ended, in the order of their ends; also when the run was broken
        off, which ends what is under way and keeps no record of it."""

    async def run(self, plan: Plan) -> None:
        """Until every load has ended. Raises LoadTestError where a load cannot go on."""
        try:
            async with asyncio.TaskGroup() as group:
                for planned in plan.loads:
                    if isinstance(planned, Timetable):
                        group.create_task(self._schedule(planned))
                    else:
                        group.create_task(self._users(planned))
        except BaseExceptionGroup as group_error:
            known = _first(group_error.subgroup(LoadTestError))
            if known is None:
                raise
            raise known from None

    async def warm_up(self, load: str, sessions: Iterable[Session]) -> None:
        """One after another. Raises LoadTestError when one does not finish."""
        for number, session in enumerate(sessions):
            begun = len(self.records)
            await self._session(f"warmup-{load}", number, session, self._now())
            for record in self.records[begun:]:
                if record.outcome not in (Outcome.FINISHED, Outcome.LEFT):
                    raise LoadTestError(f"a warm-up request did not finish: {record.error}")

    async def _schedule(self, table: Timetable) -> None:
        async with asyncio.TaskGroup() as group:
            for number, due in enumerate(table.due):
                await self._until(due.at_s)
                group.create_task(self._session(table.load, number, due.session, due.at_s))

    async def _users(self, queue: Queue) -> None:
        users = queue.arrivals.users
        numbered = enumerate(queue.sessions)
        async with asyncio.TaskGroup() as group:
            for user in range(users):
                begins_s = queue.begins_s + user * queue.arrivals.stagger_s / users
                group.create_task(self._user(queue, begins_s, numbered))

    async def _user(
        self, queue: Queue, begins_s: float, numbered: Iterator[tuple[int, Session]]
    ) -> None:
        at_s = begins_s
        while at_s < queue.stops_s:
            await self._until(at_s)
            taken = next(numbered, None)
            if taken is None:
                return
            await self._session(queue.load, *taken, at_s)
            at_s = self._now() + queue.arrivals.think_s

    async def _session(self, load: str, number: int, session: Session, at_s: float) -> None:
        conversation: list[Message] = []
        for index, turn in enumerate(session.turns):
            conversation += turn.messages
            record = Record(load, number, index, at_s, asked_tokens=turn.max_tokens)
            record.request_id = str(uuid5(self._ids, f"{load} {number} {index}"))
            self._progress.sent(load)
            answer = await self._client.ask(conversation, turn, record)
            self.records.append(record)
            self._progress.ended(record)
            if record.outcome is not Outcome.FINISHED:
                return
            conversation.append(Message("assistant", answer))
            if index + 1 < len(session.turns):
                at_s = record.ended_s + session.turns[index + 1].pause_s
                await self._until(at_s)

    async def _until(self, at_s: float) -> None:
        """Also when that is past: others get their turn."""
        await asyncio.sleep(max(0.0, at_s - self._now()))
        while (left_s := at_s - self._now()) > EXACT_S:
            await asyncio.sleep(left_s)


def _first(error: BaseException | None) -> BaseException | None:
    """Of a group that may hold groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
