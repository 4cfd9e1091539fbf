"""The draw decides, whatever the load."""

from random import Random as Source

from services.router.placement import Candidate, Stage, WorkerLoad, need_of
from services.router.policies.random import Random
from tests.support.router_world import BLOCK_TOKENS, process, submit

NEED = need_of(submit("r"), BLOCK_TOKENS)
CANDIDATES = [Candidate(process(name), WorkerLoad(sequences=n)) for n, name in enumerate("abc")]


def test_it_takes_what_is_drawn() -> None:
    for number, candidate in enumerate(CANDIDATES):
        policy = Random(lambda n, number=number: number)
        assert policy.choose(Stage.DECODE, NEED, CANDIDATES) is candidate


def test_all_are_drawn_about_equally_often() -> None:
    policy = Random(Source(1).randrange)
    drawn = [policy.choose(Stage.PREFILL, NEED, CANDIDATES).process.name for _ in range(600)]
    assert all(160 <= drawn.count(name) <= 240 for name in "abc")
