import dataclasses

import pytest

from loadtest.session import Message, Session, Turn

TURN = Turn((Message("user", "hello"),), 4)


def test_a_session_has_a_turn() -> None:
    with pytest.raises(ValueError, match="at least one turn"):
        Session(())


def test_a_turn_does_nothing_special_unless_told() -> None:
    assert Session((TURN,)).at_s is None
    plain = dataclasses.asdict(TURN)
    assert {key for key, value in plain.items() if not value} == {
        "pause_s",
        "leave_after_tokens",
        "leave_after_s",
        "read_bytes_s",
    }
