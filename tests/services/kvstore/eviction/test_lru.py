"""Least recently used first."""

from common.domain.ids import UnitHash
from services.kvstore.eviction.lru import Lru

NAMES = [UnitHash(bytes([i]) * 32) for i in range(4)]


def test_the_longest_unused_goes_first_whatever_the_order_of_entering() -> None:
    rule = Lru()
    for name, used_at in zip(NAMES, (3.0, 1.0, 4.0, 2.0), strict=True):
        rule.enter(name, used_at)
    order = []
    while (victim := rule.victim()) is not None:
        order.append(victim)
        rule.leave(victim)
    assert order == [NAMES[1], NAMES[3], NAMES[0], NAMES[2]]


def test_entering_again_counts_as_use() -> None:
    rule = Lru()
    rule.enter(NAMES[0], 1.0)
    rule.enter(NAMES[1], 2.0)
    rule.enter(NAMES[0], 3.0)
    assert rule.victim() == NAMES[1]


def test_touches_do_not_pile_up() -> None:
    rule = Lru()
    for now in range(10_000):
        rule.enter(NAMES[now % 4], float(now))
    assert len(rule._heap) < 100
    assert rule.victim() == NAMES[10_000 % 4]
