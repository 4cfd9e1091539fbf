"""Names of attempts and lives."""

from common.domain.ids import AttemptKey, Incarnation, ProcessId, ProcessName, RequestId


def test_as_people_read_them() -> None:
    assert str(AttemptKey(RequestId("chatcmpl-1"), 2)) == "chatcmpl-1#2"
    life = ProcessId(ProcessName("decode-0"), Incarnation(0xAB))
    assert str(life) == "decode-0/00000000000000ab"


def test_two_lives_and_two_attempts_are_different_and_in_order() -> None:
    first, second = (AttemptKey(RequestId("r"), number) for number in (1, 2))
    assert first < second
    assert len({first, second, AttemptKey(RequestId("r"), 1)}) == 2
    lives = [ProcessId(ProcessName("a"), Incarnation(number)) for number in (9, 10)]
    assert sorted(lives, reverse=True) == lives[::-1]
