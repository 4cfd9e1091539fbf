"""A unit goes with the last block that has it."""

from common.domain.ids import UnitHash
from common.kv.held_units import HeldUnits

SHARED, LEFT, RIGHT = (UnitHash(bytes([number]) * 32) for number in range(3))


def test_a_unit_of_one_block_goes_with_it() -> None:
    held = HeldUnits()
    held.add((SHARED, LEFT))
    assert held.remove((SHARED, LEFT)) == (SHARED, LEFT)


def test_a_unit_of_two_blocks_stays_until_both_are_gone() -> None:
    held = HeldUnits()
    held.add((SHARED, LEFT))
    held.add((SHARED, RIGHT))
    assert held.remove((SHARED, LEFT)) == (LEFT,)
    assert held.remove((SHARED, RIGHT)) == (SHARED, RIGHT)
