from dataclasses import replace
from random import Random
from typing import Literal

import pytest
from pydantic import ValidationError

from loadtest.session import Turn
from loadtest.workloads import AnyWorkload
from loadtest.wrapping import Wrapping
from tests.support.workload_examples import CHAT, made, taken


class Marking(Wrapping):
    kind: Literal["marking"] = "marking"

    def changed(self, turn: Turn, random: Random) -> Turn:
        return replace(turn, read_bytes_s=random.random())


Marking.model_rebuild(_types_namespace={"AnyWorkload": AnyWorkload})
INNER = made("multi_turn", **{key: value for key, value in CHAT.items() if key != "kind"})


def marking(share: float) -> Marking:
    return Marking.model_validate({"of": CHAT, "share": share})


def turns(share: float, sessions: int = 1500, seed: int = 0) -> list[Turn]:
    return [turn for session in taken(marking(share), sessions, seed) for turn in session.turns]


def test_its_share_of_turns_is_changed() -> None:
    drawn = turns(0.3)
    assert len(drawn) == 6000
    assert sum(turn.read_bytes_s > 0 for turn in drawn) == pytest.approx(1800, abs=150)


def test_all_are_changed_where_the_share_is_all() -> None:
    assert all(turn.read_bytes_s for turn in turns(1.0, 50))


def test_turns_of_a_session_are_drawn_one_by_one() -> None:
    changed = [
        sum(turn.read_bytes_s > 0 for turn in session.turns) for session in taken(marking(0.5), 200)
    ]
    assert set(changed) == {0, 1, 2, 3, 4}


def test_nothing_else_is_changed() -> None:
    plain = [replace(turn, read_bytes_s=0.0) for turn in turns(0.5, 20)]
    assert plain == [turn for session in taken(INNER, 20) for turn in session.turns]


def test_moments_of_a_trace_pass_through() -> None:
    session = taken(INNER, 1)[0]
    with_time = replace(session, at_s=4.5)
    changed = marking(0.5)._changed(iter([with_time]), Random(0))
    assert next(changed).at_s == 4.5


@pytest.mark.parametrize("share", [0, -0.1, 1.1])
def test_a_share_is_a_part(share: float) -> None:
    with pytest.raises(ValidationError, match="share"):
        marking(share)


def test_it_may_wrap_one_that_wraps() -> None:
    slow = {"kind": "slow_readers", "of": CHAT, "share": 1, "bytes_s": 5}
    both = made("cancelling", of=slow, share=1, after_s=2)
    for session in taken(both, 5):
        assert all((turn.read_bytes_s, turn.leave_after_s) == (5, 2) for turn in session.turns)


def test_errors_of_the_wrapped_name_their_place() -> None:
    with pytest.raises(ValidationError) as caught:
        Marking.model_validate({"of": CHAT | {"turns": 0}, "share": 1})
    place = caught.value.errors()[0]["loc"]
    assert place[:2] == ("of", "turns")
