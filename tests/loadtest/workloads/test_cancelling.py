import pytest
from pydantic import ValidationError

from loadtest.session import Turn
from tests.support.workload_examples import CHAT, made, taken


def turns(**parameters: object) -> list[Turn]:
    workload = made("cancelling", **{"of": CHAT, "share": 1} | parameters)
    return [turn for session in taken(workload, 500) for turn in session.turns]


def test_its_share_hangs_up_after_chunks_and_the_rest_stays() -> None:
    drawn = [turn.leave_after_tokens for turn in turns(share=0.25, after_tokens=7)]
    assert set(drawn) == {0, 7}
    assert drawn.count(7) == pytest.approx(500, abs=80)


def test_chunks_are_drawn_for_each() -> None:
    lengths = {"kind": "uniform", "low": 2, "high": 5}
    assert {turn.leave_after_tokens for turn in turns(after_tokens=lengths)} == {2, 3, 4, 5}


def test_by_time_they_hang_up_whatever_came() -> None:
    drawn = turns(after_s=1.5)
    assert {(turn.leave_after_tokens, turn.leave_after_s) for turn in drawn} == {(0, 1.5)}


def test_it_may_be_whichever_comes_first() -> None:
    drawn = turns(after_s=1.5, after_tokens=3)
    assert {(turn.leave_after_tokens, turn.leave_after_s) for turn in drawn} == {(3, 1.5)}


def test_one_that_says_neither_is_refused() -> None:
    with pytest.raises(ValidationError, match="give after_tokens or after_s"):
        turns()
