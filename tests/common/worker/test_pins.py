"""A block is unpinned when its last reader has let go."""

from common.engine.job import Command, Unpin
from common.worker.pins import Pins


def test_the_last_reader_unpins_and_no_other() -> None:
    said: list[Command] = []
    pins = Pins(said.append)
    pinned = pins.hold([3, 5])
    pins.share(pinned)
    pins.share(pinned)
    assert pins.open == 2
    pins.let_go(pinned)
    pins.let_go(pinned)
    assert (said, pins.open) == ([], 2)
    pins.let_go(pinned)
    assert (said, pins.open) == ([Unpin((3, 5))], 0)


def test_groups_are_counted_apart() -> None:
    said: list[Command] = []
    pins = Pins(said.append)
    first, second = pins.hold([1]), pins.hold([2, 3])
    pins.let_go(second)
    assert (said, pins.open) == ([Unpin((2, 3))], 1)
    pins.let_go(first)
    assert pins.open == 0


def test_a_group_of_none_says_nothing() -> None:
    said: list[Command] = []
    pins = Pins(said.append)
    pins.let_go(pins.hold([]))
    assert (said, pins.open) == ([], 0)
