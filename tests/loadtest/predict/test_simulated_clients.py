import pytest

from loadtest.arrivals import Users
from loadtest.errors import LoadTestError
from loadtest.plan import Due, Plan, Queue, Timetable
from loadtest.predict.simulated_clients import TEMPLATE_TOKENS, SimulatedClients, tokens_of
from loadtest.record import Outcome, Record
from loadtest.scenario import Request
from loadtest.session import Message, Session, Turn
from tests.support.predicted import NOTHING_AROUND, Scene, plan

COMPLETIONS = Request(endpoint="completions")


def turn(words: int, tokens: int, pause_s: float = 0.0, offset: int = 0) -> Turn:
    text = " ".join(f"w{number + offset}" for number in range(words))
    return Turn((Message("user", text),), tokens, pause_s)


def run(made: Plan, request: Request = COMPLETIONS) -> list[Record]:
    scene = Scene(plan(0, 1))
    clients = SimulatedClients(scene.cluster, scene.clock, request, 2.0)
    clients.run(made)
    return clients.records


def table(*due: tuple[float, Session]) -> Plan:
    return Plan((Timetable("main", tuple(Due(at_s, session) for at_s, session in due)),))


def test_equal_words_are_equal_tokens() -> None:
    assert tokens_of("a b  a\nc") == [tokens_of(word)[0] for word in "abac"]
    assert tokens_of("") == []


def test_a_record_says_what_a_client_would_have_seen() -> None:
    session = Session((turn(50, 3),))
    (record,) = run(table((1.5, session)))
    assert (record.load, record.session, record.turn) == ("main", 0, 0)
    assert record.scheduled_s == record.sent_s == 1.5
    assert (record.prompt_tokens, record.output_tokens, record.asked_tokens) == (50, 3, 3)
    assert len(record.chunks_s) == 3
    assert record.ended_s == record.chunks_s[-1] > record.chunks_s[0] > 1.5
    assert (record.outcome, record.finish, record.status) == (Outcome.FINISHED, "length", 200)


def test_the_chat_template_costs_its_tokens() -> None:
    (record,) = run(table((0.0, Session((turn(50, 1),)))), Request(endpoint="chat"))
    assert record.prompt_tokens == 50 + TEMPLATE_TOKENS


def test_a_turn_waits_for_the_answer_and_its_pause_and_brings_the_conversation() -> None:
    session = Session((turn(64, 10), turn(20, 1, pause_s=3.0, offset=100)))
    first, second = run(table((0.0, session)))
    assert second.scheduled_s == pytest.approx(first.ended_s + 3.0)
    assert second.prompt_tokens == 64 + 10 + 20
    assert second.cached_tokens == 64


def test_users_begin_the_next_session_when_one_has_ended() -> None:
    users = Users(users=1, think_s=2.0)
    sessions = iter([Session((turn(10, 1, offset=n),)) for n in (0, 20)])
    first, second = run(Plan((Queue("main", users, sessions, 2, 0.0, 100.0),)))
    assert second.scheduled_s == pytest.approx(first.ended_s + 2.0)


def test_no_session_begins_when_a_closed_load_stops() -> None:
    users = Users(users=2)
    sessions = iter([Session((turn(10, 1, offset=20 * n),)) for n in range(100)])
    records = run(Plan((Queue("main", users, sessions, None, 0.0, 0.1),)))
    assert 2 <= len(records) < 100
    assert all(record.scheduled_s < 0.1 for record in records)


def test_what_takes_longer_than_the_limit_has_failed() -> None:
    request = Request(endpoint="completions", limit_s=NOTHING_AROUND.request_ms * 1e-3)
    (record,) = run(table((0.0, Session((turn(10, 1),)))), request)
    assert (record.outcome, record.error) == (Outcome.FAILED, "no end within 0.005 s")


def test_clients_that_leave_are_not_predicted() -> None:
    leaving = Turn((Message("user", "a"),), 5, leave_after_tokens=2)
    with pytest.raises(LoadTestError, match="measure them"):
        run(table((0.0, Session((leaving,)))))


def test_warm_up_sessions_come_one_after_another() -> None:
    scene = Scene(plan(0, 1))
    clients = SimulatedClients(scene.cluster, scene.clock, COMPLETIONS, 0.0)
    clients.warm_up("main", [Session((turn(10, 2, offset=20 * n),)) for n in range(2)])
    first, second = clients.records
    assert second.scheduled_s == first.ended_s
