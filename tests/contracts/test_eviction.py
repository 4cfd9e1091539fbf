"""Every eviction rule: only candidates go, each once, and the order is its own."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.domain.ids import UnitHash
from services.kvstore.eviction import EVICTIONS, Eviction

NAMES = [UnitHash(bytes([i]) * 32) for i in range(8)]
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["enter", "leave", "ask"]), st.integers(0, 7)), max_size=120
)


every_rule = pytest.mark.parametrize("make", EVICTIONS.values(), ids=EVICTIONS.keys())


@every_rule
def test_without_candidates_there_is_no_victim(make: Callable[[], Eviction]) -> None:
    rule = make()
    assert rule.victim() is None
    rule.enter(NAMES[0], 1.0)
    rule.leave(NAMES[0])
    rule.leave(NAMES[1])
    assert rule.victim() is None
    assert not rule.candidates


@every_rule
def test_a_victim_stays_a_candidate_until_it_leaves(make: Callable[[], Eviction]) -> None:
    rule = make()
    rule.enter(NAMES[0], 1.0)
    assert [rule.victim(), rule.victim()] == [NAMES[0], NAMES[0]]
    assert set(rule.candidates) == {NAMES[0]}


@every_rule
@given(operations=OPERATIONS)
def test_the_victim_is_always_one_of_the_candidates(
    make: Callable[[], Eviction], operations: list[tuple[str, int]]
) -> None:
    rule, expected = make(), set()
    for now, (operation, number) in enumerate(operations):
        name = NAMES[number]
        if operation == "enter":
            rule.enter(name, float(now))
            expected.add(name)
        elif operation == "leave":
            rule.leave(name)
            expected.discard(name)
        else:
            victim = rule.victim()
            assert (victim in expected) if expected else (victim is None)
        assert set(rule.candidates) == expected


@every_rule
def test_draining_gives_every_candidate_once(make: Callable[[], Eviction]) -> None:
    rule = make()
    for now, name in enumerate(NAMES * 20):
        rule.enter(name, float(now))
    gone = []
    while (victim := rule.victim()) is not None:
        rule.leave(victim)
        gone.append(victim)
    assert sorted(gone) == NAMES
