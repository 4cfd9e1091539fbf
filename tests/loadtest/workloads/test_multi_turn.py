from collections import Counter
from statistics import fmean

import pytest

from loadtest.session import Session
from tests.support.workload_examples import made, taken, texts


def sessions(count: int, **parameters: object) -> list[Session]:
    return taken(made("multi_turn", **parameters), count)


def test_turns_are_as_many_as_drawn() -> None:
    counts = Counter(len(session.turns) for session in sessions(700))
    assert set(counts) == set(range(2, 9))
    assert {len(session.turns) for session in sessions(9, turns=1)} == {1}


def test_every_turn_adds_one_message_of_the_user() -> None:
    for session in sessions(30):
        for turn in session.turns:
            assert [message.role for message in turn.messages] == ["user"]
            assert 16 <= len(turn.messages[0].content.split()) <= 128
            assert 32 <= turn.max_tokens <= 128


def test_all_sessions_begin_with_the_system_prompt_if_there_is_one() -> None:
    drawn = sessions(30, system_tokens=25)
    first = [session.turns[0].messages for session in drawn]
    assert all([message.role for message in one] == ["system", "user"] for one in first)
    assert len({one[0].content for one in first}) == 1
    assert len(first[0][0].content.split()) == 25
    assert all(len(turn.messages) == 1 for session in drawn for turn in session.turns[1:])
    assert list(texts(drawn)) == list(texts(sessions(30))), "and nothing else changes"


def test_users_think_before_every_turn_but_the_first() -> None:
    drawn = sessions(1200, think_s=3)
    assert all(session.turns[0].pause_s == 0 for session in drawn)
    pauses = [turn.pause_s for session in drawn for turn in session.turns[1:]]
    assert min(pauses) > 0
    assert fmean(pauses) == pytest.approx(3, rel=0.05)
    assert sum(pause > 3 for pause in pauses) / len(pauses) == pytest.approx(0.368, abs=0.03)


def test_without_thinking_there_is_no_pause() -> None:
    assert not any(turn.pause_s for session in sessions(20) for turn in session.turns)
