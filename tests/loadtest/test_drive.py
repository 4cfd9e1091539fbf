"""Loads on a virtual clock: when everything is sent, and what does not change that."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import cycle
from uuid import UUID

import pytest

from loadtest.drive import EXACT_S, Drive
from loadtest.errors import LoadTestError
from loadtest.metrics import lag_ms
from loadtest.plan import Plan, warmup_sessions
from loadtest.record import Outcome, Record
from loadtest.scenario import Load
from loadtest.session import Message, Session, Turn
from loadtest.writer import WordWriter
from tests.support.load_plans import load, turns, written
from tests.support.sim.loop import WarpLoop, on_a_warped_clock

WRITER = WordWriter()


class Server:
    """Answers after `seconds`, or as told."""

    def __init__(self, seconds: float = 1.0, outcome: Outcome = Outcome.FINISHED) -> None:
        self.seconds = seconds
        self.outcome = outcome
        self.asked: list[list[Message]] = []
        self.running = self.most = 0

    async def ask(self, conversation: Sequence[Message], turn: Turn, record: Record) -> str:
        now = asyncio.get_running_loop().time
        self.asked.append(list(conversation))
        self.running += 1
        self.most = max(self.most, self.running)
        record.sent_s = now()
        await asyncio.sleep(self.seconds)
        record.ended_s = now()
        record.outcome = self.outcome
        self.running -= 1
        return f"answer {len(self.asked)}"


class Seen:
    def __init__(self) -> None:
        self.events: list[str] = []

    def sent(self, load: str) -> None:
        self.events.append(f"sent {load}")

    def ended(self, record: Record) -> None:
        self.events.append(f"ended {record.load}")


def drive(server: Server, progress: Seen | None = None) -> Drive:
    return Drive(server, asyncio.get_running_loop().time, progress or Seen(), "run")


def plan(*loads: Load) -> Plan:
    return Plan.made(loads, 1, WRITER)


def moments(records: Sequence[Record], of: Callable[[Record], float]) -> list[float]:
    return [pytest.approx(of(record)) for record in sorted(records, key=lambda r: r.session)]


@on_a_warped_clock
async def test_an_open_load_does_not_wait_for_answers() -> None:
    server = Server(seconds=100)
    one = drive(server)
    await one.run(plan(load({"kind": "constant", "rate": 2.0}, sessions=4)))
    assert moments(one.records, lambda r: r.sent_s) == [0.0, 0.5, 1.0, 1.5]
    assert moments(one.records, lambda r: r.scheduled_s) == [0.0, 0.5, 1.0, 1.5]
    assert server.most == 4


@on_a_warped_clock
async def test_a_late_harness_shows_it() -> None:
    one = drive(Server(seconds=0))
    one_load = load({"kind": "constant", "rate": 2.0}, sessions=3, begins_s=-1.0 + 1.0)
    await asyncio.sleep(0.7)
    await one.run(plan(one_load))
    lags = [lag_ms(record) for record in sorted(one.records, key=lambda r: r.session)]
    assert lags == pytest.approx([700, 200, 0])


@on_a_warped_clock
async def test_no_session_begins_after_the_time_is_up_and_those_that_run_end() -> None:
    one = drive(Server(seconds=30))
    await one.run(plan(load({"kind": "constant", "rate": 1.0}, seconds=2.5)))
    assert moments(one.records, lambda r: r.scheduled_s) == [0.0, 1.0, 2.0]
    assert all(record.outcome is Outcome.FINISHED for record in one.records)


@on_a_warped_clock
async def test_a_load_begins_when_it_shall() -> None:
    one = drive(Server())
    await one.run(plan(load({"kind": "constant", "rate": 1.0}, sessions=2, begins_s=5.0)))
    assert moments(one.records, lambda r: r.scheduled_s) == [5.0, 6.0]


@on_a_warped_clock
async def test_users_wait_for_their_answers() -> None:
    server = Server(seconds=2)
    one = drive(server)
    await one.run(plan(load({"kind": "users", "users": 2, "think_s": 1.0}, sessions=4)))
    assert server.most == 2
    assert moments(one.records, lambda r: r.scheduled_s) == [0, 0, 3, 3]


@on_a_warped_clock
async def test_users_stop_when_the_time_is_up() -> None:
    one = drive(Server(seconds=2))
    await one.run(plan(load({"kind": "users", "users": 1}, seconds=5)))
    assert moments(one.records, lambda r: r.scheduled_s) == [0, 2, 4]


@on_a_warped_clock
async def test_staggered_users_begin_one_after_another() -> None:
    one = drive(Server(seconds=100))
    arrivals = {"kind": "users", "users": 4, "stagger_s": 2.0}
    await one.run(plan(load(arrivals, sessions=4)))
    assert moments(one.records, lambda r: r.sent_s) == [0.0, 0.5, 1.0, 1.5]


def of_sessions(*those: Session) -> Load:
    return written(*those, arrivals={"kind": "constant", "rate": 1.0}, sessions=9)


@on_a_warped_clock
async def test_a_turn_is_due_when_the_answer_before_it_and_its_pause_have_passed() -> None:
    server = Server(seconds=2)
    one = drive(server)
    await one.run(plan(of_sessions(turns(0, 3, 0))))
    assert [record.scheduled_s for record in one.records] == pytest.approx([0, 5, 7])
    assert [record.turn for record in one.records] == [0, 1, 2]


@on_a_warped_clock
async def test_a_conversation_grows_by_what_the_server_answered() -> None:
    server = Server()
    await drive(server).run(plan(of_sessions(turns(0, 0))))
    assert [message.content for message in server.asked[1]] == [
        "question 1",
        "answer 1",
        "question 2",
    ]
    assert [message.role for message in server.asked[1]] == ["user", "assistant", "user"]


@on_a_warped_clock
@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.FAILED, Outcome.LEFT])
async def test_a_session_ends_with_an_answer_that_did_not_finish(outcome: Outcome) -> None:
    one = drive(Server(outcome=outcome))
    await one.run(plan(of_sessions(turns(0, 0))))
    assert len(one.records) == 1


@on_a_warped_clock
async def test_progress_hears_of_everything() -> None:
    seen = Seen()
    await drive(Server(), seen).run(plan(load({"kind": "constant", "rate": 0.1}, sessions=2)))
    assert seen.events == ["sent main", "ended main"] * 2


@on_a_warped_clock
async def test_loads_run_at_the_same_time_and_ask_different_things() -> None:
    server = Server()
    one = drive(server)
    arrivals = {"kind": "constant", "rate": 1.0}
    pair = [load(arrivals, sessions=2, name=name) for name in ("one", "two")]
    await one.run(plan(*pair))
    assert sorted(record.scheduled_s for record in one.records) == pytest.approx([0, 0, 1, 1])
    assert len({messages[0].content for messages in server.asked}) == 4
    assert len({UUID(record.request_id) for record in one.records}) == 4


@on_a_warped_clock
async def test_warming_up_is_one_after_another_and_asks_nothing_that_is_asked_later() -> None:
    server = Server()
    one = drive(server)
    main = load({"kind": "constant", "rate": 1.0}, sessions=2)
    await one.warm_up("main", warmup_sessions(main, 1, 2, WRITER))
    assert [record.load for record in one.records] == ["warmup-main"] * 2
    assert server.most == 1
    await drive(server).run(plan(main))
    assert len({messages[0].content for messages in server.asked}) == 4


@on_a_warped_clock
async def test_a_server_that_cannot_be_warmed_up_is_an_error() -> None:
    one = drive(Server(outcome=Outcome.REJECTED))
    with pytest.raises(LoadTestError, match="warm-up"):
        await one.warm_up("main", [turns(0)])


@on_a_warped_clock
async def test_a_thousand_sessions_a_second_are_sent_in_order_and_in_time() -> None:
    server = Server(seconds=2)
    one = drive(server)
    await one.run(plan(load({"kind": "poisson", "rate": 1000.0}, seconds=1.0)))
    by_sending = sorted(one.records, key=lambda record: record.sent_s)
    assert [record.session for record in by_sending] == list(range(len(one.records)))
    assert len(one.records) > 850
    assert server.most == len(one.records)
    assert max(map(lag_ms, one.records)) < 0.01


def test_nothing_is_sent_before_its_time_by_a_timer_that_is_early() -> None:
    async def sent() -> list[Record]:
        one = drive(Server(seconds=0.25))
        await one.run(plan(load({"kind": "constant", "rate": 2.0}, sessions=6)))
        return one.records

    # Every other timer is early, as those that count whole milliseconds are.
    early = cycle((-4e-4, 0.0)).__next__
    with asyncio.Runner(loop_factory=lambda: WarpLoop(early)) as runner:
        records = runner.run(sent())
    assert len(records) == 6
    assert all(lag_ms(record) > -1e3 * EXACT_S for record in records)


@on_a_warped_clock
async def test_a_user_does_not_think_beyond_the_end() -> None:
    one = drive(Server(seconds=2))
    await one.run(plan(load({"kind": "users", "users": 1, "think_s": 60.0}, seconds=5)))
    assert len(one.records) == 1
    assert asyncio.get_running_loop().time() == pytest.approx(2.0)


@on_a_warped_clock
async def test_breaking_it_off_ends_what_is_under_way_and_keeps_what_has_ended() -> None:
    seen = Seen()
    one = drive(Server(seconds=1.5), seen)
    running = asyncio.create_task(one.run(plan(load({"kind": "constant", "rate": 1.0}, seconds=9))))
    await asyncio.sleep(3.2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert asyncio.get_running_loop().time() == pytest.approx(3.2)
    assert [record.session for record in one.records] == [0, 1]
    assert len(asyncio.all_tasks()) == 1
    assert seen.events.count("sent main") == 4


class Broken(Server):
    """Fails in a way that nobody foresaw, the third time."""

    async def ask(self, conversation: Sequence[Message], turn: Turn, record: Record) -> str:
        if len(self.asked) == 2:
            raise ZeroDivisionError
        return await super().ask(conversation, turn, record)


@on_a_warped_clock
@pytest.mark.parametrize(
    "arrivals", [{"kind": "constant", "rate": 1.0}, {"kind": "users", "users": 1}]
)
async def test_an_unforeseen_error_ends_the_run_and_is_not_swallowed(
    arrivals: dict[str, object],
) -> None:
    one = drive(Broken(seconds=0.5))
    with pytest.raises(ExceptionGroup) as raised:
        await one.run(plan(load(arrivals, sessions=9)))
    assert raised.group_contains(ZeroDivisionError)
    assert len(one.records) == 2
    assert len(asyncio.all_tasks()) == 1


@on_a_warped_clock
async def test_a_workload_that_cannot_go_on_says_so_itself() -> None:
    users = {"kind": "users", "users": 3}
    one = drive(Server())
    with pytest.raises(LoadTestError, match=r"^trace:7: a bad row$"):
        await one.run(
            plan(
                written(
                    turns(0), arrivals=users, fails=LoadTestError("trace:7: a bad row"), seconds=9.0
                )
            )
        )


@on_a_warped_clock
async def test_a_warm_up_that_the_client_leaves_is_none_that_fails() -> None:
    one = drive(Server(outcome=Outcome.LEFT))
    await one.warm_up("main", [turns(0), turns(0)])
    assert len(one.records) == 2
