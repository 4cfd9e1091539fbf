"""What the router believes a worker carries."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.wire.messages.cluster import Load
from services.router.load import RECENT_S, LoadBook
from services.router.placement import Placement, WorkerLoad
from tests.support.router_world import key, process

D, P = process("decode-0"), process("prefill-0")
SPLIT = Placement(D, P, 1, 100, 68, 100, 4, 4, 4)
ALONE = Placement(D, None, 2, 100, 36, 36, 5, 3)


def book(total: int = 50) -> LoadBook:
    loads = LoadBook()
    for worker in (D, P):
        loads.report(worker, Load(blocks_total=total))
    return loads


def carried(load: WorkerLoad) -> tuple[int, int, int, int]:
    return (load.pending_tokens, load.sequences, load.context_blocks, load.blocks_used)


def test_a_placement_weighs_on_both_until_the_prompt_is_handed_over() -> None:
    loads = book()
    loads.place(key("a"), SPLIT, 0.0)
    assert carried(loads.view(D, 0.0)) == (0, 1, 4, 4)
    assert carried(loads.view(P, 0.0)) == (68, 1, 4, 4)
    loads.prompt_done(key("a"), 1.0)
    assert carried(loads.view(D, 1.0)) == (0, 1, 4, 4)
    assert carried(loads.view(P, 1.0)) == (0, 0, 0, 0)
    loads.end(key("a"), 2.0)
    assert carried(loads.view(D, 2.0)) == (0, 0, 0, 0)


def test_a_writer_that_computes_the_prompt_has_it_pending() -> None:
    loads = book()
    loads.place(key("a"), ALONE, 0.0)
    assert carried(loads.view(D, 0.0)) == (36, 2, 5, 3)
    loads.prompt_done(key("a"), 0.0)
    assert carried(loads.view(D, 0.0)) == (0, 2, 5, 3)


def test_ending_before_the_prompt_is_done_frees_both() -> None:
    loads = book()
    loads.place(key("a"), SPLIT, 0.0)
    loads.end(key("a"), 0.0)
    loads.end(key("a"), 0.0)
    assert carried(loads.view(D, 0.0)) == carried(loads.view(P, 0.0)) == (0, 0, 0, 0)


def test_a_report_adds_what_the_book_does_not_know() -> None:
    loads = book()
    loads.place(key("a"), ALONE, 0.0)
    loads.report(D, Load(running=7, waiting=2, blocks_total=50, blocks_used=30))
    assert carried(loads.view(D, 0.0)) == (36, 9, 30, 30)


def test_what_ends_after_a_report_is_taken_off_it_at_once() -> None:
    loads = book()
    loads.place(key("a"), ALONE, 0.0)
    loads.report(D, Load(running=2, blocks_total=50, blocks_used=3))
    loads.end(key("a"), 0.1)
    assert carried(loads.view(D, 0.1)) == (0, 0, 0, 0)


def test_what_is_placed_after_a_report_comes_on_top_of_it() -> None:
    loads = book()
    loads.report(D, Load(running=4, blocks_total=50, blocks_used=20))
    loads.place(key("a"), ALONE, 0.0)
    assert carried(loads.view(D, 0.0)) == (36, 6, 23, 23)


def test_idle_reports_bring_every_number_back_to_zero() -> None:
    loads = book()
    for name in "abcdef":
        loads.place(key(name), ALONE, 0.0)
    loads.report(D, Load(running=12, blocks_total=50, blocks_used=40))
    for name in "abcdef":
        loads.end(key(name), 1.0)
    loads.report(D, Load(blocks_total=50))
    assert carried(loads.view(D, 1.2)) == (0, 0, 0, 0)


def test_recent_work_fades() -> None:
    loads = book()
    loads.place(key("a"), SPLIT, 0.0)
    loads.prompt_done(key("a"), 0.0)
    loads.end(key("a"), 0.0)
    assert loads.view(P, 0.0).work_tokens == 68
    assert loads.view(P, RECENT_S).work_tokens == pytest.approx(68 / math.e)
    loads.place(key("b"), SPLIT, RECENT_S)
    assert loads.view(P, RECENT_S).recent_tokens == pytest.approx(68 + 68 / math.e)


def test_work_behind_a_cached_prefix_is_told_apart() -> None:
    loads = book()
    loads.place(key("a"), replace(SPLIT, prompt_tokens=68), 0.0)
    assert loads.view(P, 0.0).repeated_tokens == 0
    loads.place(key("b"), SPLIT, 0.0)
    assert loads.view(P, 0.0).repeated_tokens == 68
    assert loads.view(P, RECENT_S).repeated_tokens == pytest.approx(68 / math.e)


def test_a_refused_placement_leaves_without_making_room() -> None:
    loads = book()
    loads.place(key("a"), ALONE, 0.0)
    loads.withdraw(key("a"))
    assert carried(loads.view(D, 0.0)) == (0, 0, 0, 0)
    assert loads.freed_at(D) == -math.inf
    loads.place(key("b"), ALONE, 0.0)
    loads.end(key("b"), 3.0)
    assert loads.freed_at(D) == 3.0


def test_a_dropped_worker_starts_from_nothing() -> None:
    loads = book()
    loads.place(key("a"), SPLIT, 0.0)
    loads.drop(P)
    loads.prompt_done(key("a"), 1.0)
    loads.report(P, Load(blocks_total=9))
    assert loads.view(P, 1.0) == WorkerLoad(blocks_total=9)
    loads.drop(D)
    loads.end(key("a"), 2.0)
    assert loads.view(D, 2.0) == WorkerLoad()


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["place", "done", "end", "report"]))))
def test_nothing_ever_goes_below_zero_and_all_ends_at_zero(steps: list[tuple[int, str]]) -> None:
    loads = book()
    living: set[int] = set()
    for number, what in steps:
        name = key(str(number))
        match what:
            case "place" if number not in living:
                loads.place(name, SPLIT if number % 2 else ALONE, 0.0)
                living.add(number)
            case "done":
                loads.prompt_done(name, 0.0)
            case "end":
                loads.end(name, 0.0)
                living.discard(number)
            case "report":
                loads.report(D, Load(blocks_total=50))
        for worker in (D, P):
            assert min(carried(loads.view(worker, 0.0))) >= 0
    for number in living:
        loads.end(key(str(number)), 0.0)
    for worker in (D, P):
        assert carried(loads.view(worker, 0.0)) == (0, 0, 0, 0)
