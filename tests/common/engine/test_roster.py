"""Who is admitted, in which order, and what is left when somebody goes."""

import pytest

from common.domain.errors import InvalidTransition
from common.domain.finish import FinishReason
from common.engine.choices import fork
from common.engine.job import Add
from common.engine.mock import MockRunner
from common.engine.roster import Roster
from common.engine.sequence import Sequence, State
from common.engine.step_plan import preempt
from common.kv.hashing import extend_chain
from tests.support.engines import ROOT, greedy, key, prompt_of
from tests.support.sequences import BLOCK_TOKENS, cache_of, paged


class Entrance:
    """A roster and its cache."""

    def __init__(self, slots: int = 20) -> None:
        self.cache = cache_of(slots)
        self.allocator = paged(self.cache)
        self.roster = Roster(self.allocator)

    def enter(self, name: str, blocks: int = 1, seed: int = 0, n: int = 1) -> None:
        prompt = prompt_of(blocks * BLOCK_TOKENS, seed)
        units = extend_chain(ROOT, prompt)
        self.roster.enter(Add(key(name), prompt, units, ROOT, greedy(9, n)))

    def admit(self, most: int = 9) -> list[str]:
        return [sequence.key.request for sequence in self.roster.admit(most)]

    def run(self, name: str, blocks: int = 1, seed: int = 0) -> Sequence:
        """Entered, admitted and started."""
        self.enter(name, blocks, seed)
        assert self.admit() == [name]
        sequence = self.roster.start(key(name))
        assert sequence is not None
        return sequence


def test_prompts_are_admitted_in_order_and_a_large_one_is_not_passed_by() -> None:
    entrance = Entrance(slots=6)
    for seed, (name, blocks) in enumerate([("a", 2), ("b", 5), ("c", 1)]):
        entrance.enter(name, blocks, seed)
    assert entrance.admit() == ["a"]
    assert [sequence.key.request for sequence in entrance.roster.waiting] == ["b", "c"]
    assert entrance.roster.held[key("a")].state is State.HELD
    assert entrance.cache.used == 2
    entrance.roster.drop(key("a"))
    assert entrance.admit() == ["b", "c"]
    assert entrance.cache.used == 6


def test_no_more_are_admitted_than_may_hold_blocks_at_once() -> None:
    entrance = Entrance()
    first = entrance.run("first")
    for seed, name in enumerate("abc", 1):
        entrance.enter(name, seed=seed)
    assert entrance.admit(most=3) == ["a", "b"]
    assert entrance.admit(most=3) == []
    entrance.roster.leave(first, FinishReason.STOP)
    assert entrance.admit(most=3) == ["c"]


def test_one_block_stays_for_each_that_runs() -> None:
    entrance = Entrance(slots=6)
    for seed, name in enumerate("ab"):
        entrance.run(name, seed=seed)
    entrance.enter("c", blocks=3, seed=2)
    assert entrance.admit() == [], "4 are free, 2 of them somebody else's next"
    entrance.roster.drop(key("c"))
    entrance.enter("d", blocks=2, seed=3)
    assert entrance.admit() == ["d"]


def test_who_is_alone_may_take_the_whole_pool() -> None:
    entrance = Entrance(slots=3)
    entrance.enter("a", blocks=3)
    assert entrance.admit() == ["a"]


def test_nobody_enters_before_the_preempted_are_back() -> None:
    entrance = Entrance()
    sequence = entrance.run("a")
    entrance.enter("b", seed=1)
    preempt(sequence, entrance.cache)
    assert entrance.admit() == []
    entrance.roster.leave(sequence, FinishReason.STOP)
    assert entrance.admit() == ["b"]


def test_a_cached_prefix_counts_as_computed() -> None:
    entrance = Entrance()
    sequence = entrance.run("a", blocks=2)
    entrance.cache.name(sequence.table[0], ROOT, tuple(sequence.units[:1]))
    entrance.enter("b", blocks=2)
    entrance.admit()
    held = entrance.roster.held[key("b")]
    assert (held.computed, held.table[0]) == (BLOCK_TOKENS, sequence.table[0])
    assert entrance.cache.used == 3


def test_runners_stand_by_arrival_and_choice_however_they_started() -> None:
    entrance = Entrance()
    for seed, name in enumerate("abc"):
        entrance.enter(name, seed=seed, n=3)
    entrance.admit()
    started = {name: entrance.roster.start(key(name)) for name in "cab"}
    leader = started["a"]
    assert leader is not None
    runner = MockRunner(BLOCK_TOKENS)
    entrance.roster.join([fork(leader, choice, entrance.allocator, runner) for choice in (2, 1)])
    stand = [(sequence.key.request, sequence.choice) for sequence in entrance.roster.running]
    assert stand == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0)]
    assert not entrance.roster.held


def test_only_who_is_held_can_start() -> None:
    entrance = Entrance()
    entrance.enter("a")
    assert entrance.roster.start(key("a")) is None
    entrance.admit()
    assert entrance.roster.start(key("a")) is not None
    assert entrance.roster.start(key("a")) is None
    assert entrance.roster.start(key("unknown")) is None


def test_the_youngest_reservation_is_revoked_first_and_each_once() -> None:
    entrance = Entrance()
    assert entrance.roster.revoke_youngest() is None
    for seed, name in enumerate("abc"):
        entrance.enter(name, seed=seed)
    entrance.admit()
    revoked = [entrance.roster.revoke_youngest() for _ in range(4)]
    assert revoked == [key("c"), key("b"), key("a"), None]


def test_a_dropped_job_that_comes_again_may_be_revoked_again() -> None:
    entrance = Entrance()
    for _ in range(2):
        entrance.enter("a")
        entrance.admit()
        assert entrance.roster.revoke_youngest() == key("a")
        assert entrance.roster.drop(key("a")) is not None


def test_one_that_started_although_revoked_is_not_remembered() -> None:
    """It ends without being dropped; the same key held again is a reservation like any other."""
    entrance = Entrance()
    for _ in range(2):
        entrance.enter("a")
        entrance.admit()
        assert entrance.roster.revoke_youngest() == key("a")
        sequence = entrance.roster.start(key("a"))
        assert sequence is not None
        entrance.roster.leave(sequence, FinishReason.STOP)


@pytest.mark.parametrize("state", [State.WAITING, State.HELD, State.RUNNING, State.PREEMPTED])
def test_who_leaves_gives_back_its_place_and_its_blocks(state: State) -> None:
    entrance = Entrance()
    roster = entrance.roster
    entrance.enter("a", blocks=2)
    sequence = roster.waiting[0]
    if state is not State.WAITING:
        entrance.admit()
    if state in (State.RUNNING, State.PREEMPTED):
        roster.start(key("a"))
    if state is State.PREEMPTED:
        preempt(sequence, entrance.cache)
    assert sequence.state is state
    roster.leave(sequence, FinishReason.LENGTH)
    assert (sequence.state, sequence.finish) == (State.FINISHED, FinishReason.LENGTH)
    assert [*roster.waiting, *roster.held, *roster.running] == []
    assert not sequence.table
    assert entrance.cache.used == 0
    assert key("a") in roster.jobs, "the job goes when all its choices have"
    with pytest.raises(InvalidTransition):
        roster.leave(sequence, FinishReason.STOP)


def test_dropping_a_job_ends_all_its_choices_and_nobody_elses() -> None:
    entrance = Entrance()
    leader, other = entrance.run("a"), entrance.run("b", seed=1)
    twin = fork(leader, 1, entrance.allocator, MockRunner(BLOCK_TOKENS))
    entrance.roster.join([twin])
    job = entrance.roster.drop(key("a"))
    assert job is not None
    assert job.add.key == key("a")
    assert (leader.finish, twin.finish) == (FinishReason.CANCELLED, FinishReason.CANCELLED)
    assert entrance.roster.running == [other]
    assert list(entrance.roster.jobs) == [key("b")]
    assert entrance.roster.drop(key("a")) is None
    assert entrance.cache.used == 1
