from statistics import fmean, median

import pytest

from loadtest.session import Session
from tests.support.workload_examples import made, taken


def sessions(count: int = 150) -> list[Session]:
    return taken(made("agent"), count)


def words(session: Session) -> list[int]:
    return [sum(len(m.content.split()) for m in turn.messages) for turn in session.turns]


def test_a_long_prompt_comes_first_and_then_tools_results() -> None:
    for session in sessions(20):
        first, *later = words(session)
        assert first == 1024
        assert all(32 <= result <= 192 for result in later)
        assert all(10 <= turn.max_tokens <= 40 for turn in session.turns)


def test_the_default_is_a_sixteenth_of_real_sessions() -> None:
    drawn = sessions()
    assert median(len(session.turns) for session in drawn) == pytest.approx(33, abs=2)
    read = written = fresh = 0
    for session in drawn:
        context = 0
        for turn, added in zip(session.turns, words(session), strict=True):
            context += added
            read, fresh, written = read + context, fresh + added, written + turn.max_tokens
            context += turn.max_tokens
    assert read / written == pytest.approx(131, rel=0.08)
    assert 1 - fresh / read == pytest.approx(0.95, abs=0.015)


def test_a_default_session_fits_a_context_of_8192() -> None:
    chat_template = 8
    for session in sessions():
        answers = sum(turn.max_tokens for turn in session.turns)
        messages = 2 * len(session.turns)
        assert sum(words(session)) + answers + chat_template * messages <= 8192


def test_tools_take_their_time() -> None:
    drawn = sessions()
    assert all(session.turns[0].pause_s == 0 for session in drawn)
    gaps = [turn.pause_s for session in drawn for turn in session.turns[1:]]
    assert fmean(gaps) == pytest.approx(7.2, rel=0.05)
    assert median(gaps) == pytest.approx(5, rel=0.06)


def test_tools_may_take_none() -> None:
    drawn = taken(made("agent", tool_s=0), 3)
    assert not any(turn.pause_s for session in drawn for turn in session.turns)
