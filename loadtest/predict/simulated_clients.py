"""The clients of a plan, on virtual time: what `drive` and `client` do, with nothing in between.

A word is a token, whoever wrote it, and the chat template adds as many as the default model's does.
Conversations carry the answers given before, so that caches find what they would find. Clients that
leave or read slowly, and faults, are not predicted.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from zlib import crc32

from loadtest.errors import LoadTestError
from loadtest.plan import Plan, Queue, Timetable
from loadtest.predict.simulated_cluster import Answering, SimulatedCluster
from loadtest.predict.simulated_runner import TOKEN
from loadtest.predict.virtual_clock import VirtualClock
from loadtest.record import Outcome, Record
from loadtest.scenario import Request
from loadtest.session import Session, Turn

TEMPLATE_TOKENS = 30
"""Of the default model's template around one message, its own system message included."""
_FIRST_ID, _IDS = 100, 49_000
_OK, _REFUSED = 200, 503

Call = Callable[[], object]


def tokens_of(text: str) -> list[int]:
    return [_FIRST_ID + crc32(word.encode()) % _IDS for word in text.split()]


class SimulatedClients:
    """One run. Seconds of records are since `begins_s` of the clock."""

    def __init__(
        self, cluster: SimulatedCluster, clock: VirtualClock, request: Request, begins_s: float
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._limit_s = request.limit_s
        self._template = range(TEMPLATE_TOKENS if request.endpoint == "chat" else 0)
        self._begins_s = begins_s
        self.records: list[Record] = []
        """In the order of their ends."""

    def run(self, plan: Plan) -> None:
        """Until every load has ended. Raises LoadTestError for what is not predicted."""
        for planned in plan.loads:
            match planned:
                case Timetable(load, due):
                    for number, one in enumerate(due):
                        self.at(one.at_s, partial(self._begin, load, number, one.session, one.at_s))
                case Queue():
                    self._users(planned)
        self._clock.run()

    def warm_up(self, load: str, sessions: Sequence[Session]) -> None:
        """One after another; the records are the caller's to forget."""
        for number, session in enumerate(sessions):
            self._begin(f"warmup-{load}", number, session, self._now())
            self._clock.run()

    def _now(self) -> float:
        return self._clock.now - self._begins_s

    def at(self, at_s: float, call: Call) -> None:
        self._clock.at(self._begins_s + at_s, call)

    def _users(self, queue: Queue) -> None:
        users = queue.arrivals.users
        numbered = enumerate(queue.sessions)
        for user in range(users):
            at_s = queue.begins_s + user * queue.arrivals.stagger_s / users
            self.at(at_s, partial(self._next, queue, numbered, at_s))

    def _next(self, queue: Queue, numbered: Iterator[tuple[int, Session]], at_s: float) -> None:
        taken = next(numbered, None) if at_s < queue.stops_s else None
        if taken is None:
            return

        def ended() -> None:
            again_s = self._now() + queue.arrivals.think_s
            self.at(again_s, partial(self._next, queue, numbered, again_s))

        _Course(self, queue.load, *taken).turn(0, at_s, ended)

    def _begin(self, load: str, number: int, session: Session, at_s: float) -> None:
        _Course(self, load, number, session).turn(0, at_s, lambda: None)

    def ask(self, record: Record, prompt: list[int], turn: Turn, ended: Call) -> None:
        """`ended` is called when the answer is over, whatever it came to."""
        if turn.leave_after_tokens or turn.leave_after_s or turn.read_bytes_s:
            raise LoadTestError("clients that leave or read slowly are not predicted: measure them")
        record.sent_s = self._now()
        record.prompt_tokens = len(self._template) + len(prompt)

        def over() -> None:
            record.ended_s = self._now()
            record.output_tokens = len(record.chunks_s)
            record.cached_tokens = answering.cached_tokens
            record.error, record.finish = answering.error, "" if answering.error else "length"
            record.status = _REFUSED if answering.error else _OK
            record.outcome = Outcome.REJECTED if answering.error else Outcome.FINISHED
            if record.ended_s - record.sent_s > self._limit_s:
                record.outcome, record.error = Outcome.FAILED, f"no end within {self._limit_s:g} s"
            self.records.append(record)
            ended()

        answering = Answering(
            prompt=[*self._template, *prompt],
            max_tokens=turn.max_tokens,
            on_token=lambda: record.chunks_s.append(self._now()),
            on_end=over,
        )
        self._cluster.ask(answering)


class _Course:
    """One session: a turn after the other, while they finish."""

    def __init__(self, clients: SimulatedClients, load: str, number: int, session: Session) -> None:
        self._clients = clients
        self._load = load
        self._number = number
        self._turns = session.turns
        self._said: list[int] = []

    def turn(self, index: int, at_s: float, ended: Call) -> None:
        """`ended` is called when the session is over."""
        turn = self._turns[index]
        record = Record(self._load, self._number, index, at_s, asked_tokens=turn.max_tokens)
        record.request_id = f"predicted-{self._load}-{self._number}-{index}"
        for message in turn.messages:
            self._said += tokens_of(message.content)
        self._clients.ask(record, self._said, turn, partial(self._answered, record, ended))

    def _answered(self, record: Record, ended: Call) -> None:
        following = record.turn + 1
        if record.outcome is not Outcome.FINISHED or following == len(self._turns):
            ended()
            return
        self._said += [TOKEN] * len(record.chunks_s)
        at_s = record.ended_s + self._turns[following].pause_s
        self._clients.at(at_s, partial(self.turn, following, at_s, ended))
