"""Order, bound and deadlines of what waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.domain.errors import Overloaded
from services.router.lifecycle import Record
from services.router.placement import need_of
from services.router.queue import AttemptQueue
from tests.support.router_world import BLOCK_TOKENS, key, peer, submit


def record(name: str, priority: int = 0, deadline_at: float | None = None) -> Record:
    message = submit(name, priority=priority)
    need = need_of(message, BLOCK_TOKENS)
    return Record(message, peer("gateway-0"), need, 0.0, deadline_at)


def drained(queue: AttemptQueue) -> list[str]:
    names = []
    while (head := queue.head()) is not None:
        names.append(head.submit.key.request)
        queue.leave(head.submit.key)
    return names


def test_lower_priority_numbers_go_first_and_equals_by_arrival() -> None:
    queue = AttemptQueue(10)
    for name, priority in [("a", 1), ("b", 0), ("c", 1), ("d", 0), ("e", -1)]:
        queue.push(record(name, priority))
    assert drained(queue) == ["e", "b", "d", "a", "c"]


def test_a_full_queue_refuses_with_a_delay() -> None:
    queue = AttemptQueue(2)
    queue.push(record("a"))
    queue.push(record("b"))
    with pytest.raises(Overloaded) as caught:
        queue.push(record("c"))
    assert caught.value.retry_after_ms == 1000
    assert drained(queue) == ["a", "b"]


def test_one_put_back_has_its_old_place_even_when_full() -> None:
    queue = AttemptQueue(2)
    first = record("a")
    queue.push(first)
    queue.push(record("b"))
    queue.leave(first.submit.key)
    queue.push(record("c"))
    queue.put_back(first)
    assert len(queue) == 3
    assert drained(queue) == ["a", "b", "c"]


def test_leaving_and_forgetting_twice_changes_nothing() -> None:
    queue = AttemptQueue(2)
    queue.push(record("a"))
    for _ in range(2):
        queue.leave(key("a"))
        queue.forget(key("a"))
    assert (len(queue), queue.head()) == (0, None)


def test_what_is_past_its_deadline_is_listed() -> None:
    queue = AttemptQueue(9)
    for name, deadline_at in [("a", 5.0), ("b", None), ("c", 6.0)]:
        queue.push(record(name, deadline_at=deadline_at))
    assert [r.submit.key.request for r in queue.expired(5.0)] == ["a"]
    assert [r.submit.key.request for r in queue.expired(4.99)] == []


@given(st.lists(st.tuples(st.integers(-2, 2), st.booleans()), max_size=30))
def test_any_mix_comes_out_by_priority_then_arrival(arrivals: list[tuple[int, bool]]) -> None:
    queue = AttemptQueue(100)
    kept = []
    for number, (priority, leaves) in enumerate(arrivals):
        queue.push(record(str(number), priority))
        if leaves:
            queue.forget(key(str(number)))
        else:
            kept.append((priority, number))
    assert drained(queue) == [str(number) for _, number in sorted(kept)]
