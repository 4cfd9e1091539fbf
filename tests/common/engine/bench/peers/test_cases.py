import pytest

from common.engine.bench.peers.cases import FULL, KINDS, QUICK, Case, run_case
from tests.support.fake_peer import FakePeer

VOCAB = 500


def test_every_kind_is_in_both_lists() -> None:
    assert {case.kind for case in FULL} == set(KINDS)
    assert {case.kind for case in QUICK} == set(KINDS)
    assert len({case.name for case in FULL}) == len(FULL)


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.kind)
def test_a_peer_gets_a_number_for_each(case: Case) -> None:
    value = run_case(FakePeer(0.0001), case, 1, VOCAB)
    assert value is not None
    assert value > 0


def test_rates_and_times_are_told_apart() -> None:
    peer = FakePeer(0.01)
    prefill = run_case(peer, Case("prefill", 100), 1, VOCAB)
    gap = run_case(peer, Case("gap", 10, output=2, streams=2), 1, VOCAB)
    assert prefill is not None
    assert gap is not None
    assert 1_000 < prefill <= 100 / 0.01
    assert gap >= 10.0
    assert Case("prefill", 100).more_is_better
    assert not Case("gap", 10).more_is_better


def test_each_seed_has_new_prompts_and_one_seed_the_same() -> None:
    peers = [FakePeer() for _ in range(3)]
    for peer, seed in zip(peers, (1, 2, 1), strict=True):
        run_case(peer, Case("streams", 4, output=2), seed, VOCAB)
    first, second, again = (peer.prompts for peer in peers)
    assert first == again
    assert not {tuple(prompt) for prompt in first} & {tuple(prompt) for prompt in second}


def test_a_warm_prompt_is_one_that_came_before() -> None:
    peer = FakePeer()
    assert run_case(peer, Case("warm", 20), 1, VOCAB) is not None
    waking, first, again = peer.prompts
    assert first == again != waking


def test_a_peer_that_caches_nothing_has_no_warm_prompts() -> None:
    assert run_case(FakePeer(caches_prefixes=False), Case("warm", 20), 1, VOCAB) is None
