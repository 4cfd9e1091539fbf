"""Who is sent when follows from the scenario and the seed alone."""

from itertools import pairwise
from typing import Any

import pytest

from loadtest.errors import LoadTestError
from loadtest.plan import Plan, Queue, Timetable, warmup_sessions
from loadtest.scenario import Load
from loadtest.session import Session
from loadtest.writer import WordWriter
from tests.support.load_plans import at, load, turns, written

WRITER = WordWriter()
POISSON: dict[str, Any] = {"kind": "poisson", "rate": 1.0}
SECONDLY: dict[str, Any] = {"kind": "constant", "rate": 1.0}


def planned(one: Load, seed: int = 1) -> Timetable:
    (found,) = Plan.made([one], seed, WRITER).loads
    assert isinstance(found, Timetable)
    return found


def moments(one: Load, seed: int = 1) -> list[float]:
    return [due.at_s for due in planned(one, seed).due]


def prompts(sessions: list[Session]) -> list[str]:
    return [session.turns[0].messages[0].content for session in sessions]


def sessions(one: Load, seed: int = 1) -> list[Session]:
    return [due.session for due in planned(one, seed).due]


def queue(one: Load, seed: int = 1) -> Queue:
    (found,) = Plan.made([one], seed, WRITER).loads
    assert isinstance(found, Queue)
    return found


def test_the_same_seed_gives_the_same_timetable_and_another_another() -> None:
    poisson = load(POISSON, sessions=5)
    assert planned(poisson, 1) == planned(poisson, 1)
    assert moments(poisson, 1) != moments(poisson, 2)
    assert not set(prompts(sessions(poisson, 1))) & set(prompts(sessions(poisson, 2)))


def test_settling_sessions_come_first_and_are_another_load() -> None:
    whole = planned(load(POISSON, sessions=5))
    settling, counted = Plan.made([load(POISSON, sessions=5, settle=2)], 1, WRITER).loads
    assert isinstance(settling, Timetable)
    assert isinstance(counted, Timetable)
    assert (settling.load, counted.load) == ("main-settling", "main")
    assert settling.due + counted.due == whole.due
    assert len(settling.due) == 2


def test_a_load_that_ends_while_it_settles_has_nothing_to_send() -> None:
    with pytest.raises(LoadTestError, match="no session"):
        planned(load(SECONDLY, seconds=3.0, settle=50))


def test_arrivals_change_no_prompt() -> None:
    assert sessions(load(POISSON, sessions=5)) == sessions(load(SECONDLY, sessions=5))


def test_a_name_is_part_of_the_seed_so_that_two_loads_ask_different_things() -> None:
    one, two = load(POISSON, sessions=5), load(POISSON, sessions=5, name="other")
    assert not set(prompts(sessions(one))) & set(prompts(sessions(two)))
    assert moments(one) != moments(two)


def test_a_load_begins_when_it_shall_and_no_session_after_its_time() -> None:
    assert moments(load(SECONDLY, sessions=2, begins_s=5.0)) == [5.0, 6.0]
    assert moments(load(SECONDLY, seconds=2.5)) == [0.0, 1.0, 2.0]
    assert moments(load(SECONDLY, seconds=2.0, begins_s=5.0)) == [5.0, 6.0]
    assert moments(load(SECONDLY, seconds=9.0, sessions=2)) == [0.0, 1.0]


def test_a_thousand_a_second_are_in_order_and_as_many_as_asked() -> None:
    found = moments(load({"kind": "poisson", "rate": 1000.0}, seconds=1.0))
    assert 850 < len(found) < 1150
    assert all(before <= after for before, after in pairwise(found))
    assert found[-1] < 1.0


def test_a_trace_is_replayed_at_its_own_moments() -> None:
    def replay(speed: float, **more: Any) -> list[float]:
        arrivals = {"kind": "trace", "speed": speed}
        return moments(written(*at(0.0, 3.0, 4.0), arrivals=arrivals, **more))

    assert replay(2.0) == [0.0, 1.5, 2.0]
    assert replay(1.0, seconds=4) == [0.0, 3.0]
    assert replay(1.0, begins_s=7) == [7.0, 10.0, 11.0]
    assert replay(1.0, sessions=1) == [0.0]


def test_a_trace_out_of_order_is_an_error() -> None:
    backwards = written(*at(0.0, 3.0, 2.0), arrivals={"kind": "trace"})
    with pytest.raises(LoadTestError, match="'main': a session is earlier"):
        planned(backwards)


def test_there_is_nothing_to_replay_without_times() -> None:
    with pytest.raises(LoadTestError, match="synthetic has no times of its own"):
        planned(load({"kind": "trace"}, sessions=1))


def test_a_load_without_a_session_is_an_error() -> None:
    with pytest.raises(LoadTestError, match="'main' has no session"):
        planned(load({"kind": "poisson", "rate": 0.001}, seconds=0.1))


def test_users_take_as_many_as_there_are() -> None:
    found = queue(load({"kind": "users", "users": 2}, sessions=4, begins_s=1.0))
    assert len(list(found.sessions)) == 4
    assert found.begins_s == 1.0
    assert found.stops_s == float("inf")


def test_the_sessions_of_users_are_made_before_where_their_number_is_known() -> None:
    users = {"kind": "users", "users": 1}
    failing = written(turns(0), arrivals=users, fails=LoadTestError("a bad row"), sessions=9)
    with pytest.raises(LoadTestError, match="a bad row"):
        queue(failing)
    timed = queue(failing.model_copy(update={"sessions": 0, "seconds": 5.0}))
    assert next(timed.sessions) == turns(0)
    assert timed.stops_s == 5.0


def test_what_is_to_come_is_counted_in_requests() -> None:
    three = turns(0, 0, 0)
    users = {"kind": "users", "users": 1}
    loads = [
        written(three, three, arrivals=SECONDLY, sessions=9),
        written(three, arrivals=users, sessions=9, name="closed"),
        load(users, seconds=5.0, name="timed"),
    ]
    assert Plan.made(loads, 1, WRITER).expected == {"main": 6, "closed": 3, "timed": None}


def test_when_the_last_one_begins_is_known_where_every_load_has_an_end() -> None:
    timed = load({"kind": "users", "users": 1}, seconds=5.0, begins_s=2.0, name="timed")
    endless = load({"kind": "users", "users": 1}, sessions=5, name="endless")
    open_load = load(SECONDLY, sessions=3)
    assert Plan.made([open_load], 1, WRITER).last_s == 2.0
    assert Plan.made([open_load, timed], 1, WRITER).last_s == 7.0
    assert Plan.made([open_load, endless], 1, WRITER).last_s == 0.0


def test_no_prompt_of_the_warm_up_comes_again() -> None:
    main = load(POISSON, sessions=50)
    warm = warmup_sessions(main, 1, 3, WRITER)
    assert len(warm) == 3
    assert not set(prompts(warm)) & set(prompts(sessions(main)))
    assert warm == warmup_sessions(main, 1, 3, WRITER)
    assert warm != warmup_sessions(main, 2, 3, WRITER)
