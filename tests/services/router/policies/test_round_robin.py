"""Turns, and nothing but turns."""

from services.router.placement import Candidate, Stage, WorkerLoad, need_of
from services.router.policies.round_robin import RoundRobin
from tests.support.router_world import BLOCK_TOKENS, process, submit

NEED = need_of(submit("r"), BLOCK_TOKENS)
CANDIDATES = [Candidate(process(name), WorkerLoad(sequences=n)) for n, name in enumerate("abc")]


def test_each_stage_takes_its_own_turns() -> None:
    policy = RoundRobin(lambda n: 0)
    decode = [policy.choose(Stage.DECODE, NEED, CANDIDATES).process.name for _ in range(4)]
    prefill = [policy.choose(Stage.PREFILL, NEED, CANDIDATES).process.name for _ in range(2)]
    assert decode == ["a", "b", "c", "a"]
    assert prefill == ["a", "b"]


def test_a_candidate_less_does_not_break_the_turn() -> None:
    policy = RoundRobin(lambda n: 0)
    policy.choose(Stage.DECODE, NEED, CANDIDATES)
    assert policy.choose(Stage.DECODE, NEED, CANDIDATES[:1]) is CANDIDATES[0]
    assert policy.choose(Stage.DECODE, NEED, CANDIDATES) is CANDIDATES[2]
