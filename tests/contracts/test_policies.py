"""Every policy of the table: it takes one of the candidates, repeats itself, never starves."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.router.placement import Candidate, Draw, Policy, Stage, WorkerLoad, need_of
from services.router.policies import POLICIES
from tests.support.router_world import BLOCK_TOKENS, process, prompt_of, submit

NEED = need_of(submit("r", prompt_of(4, tail=3)), BLOCK_TOKENS)
every_policy = pytest.mark.parametrize("name", POLICIES)


def loads() -> st.SearchStrategy[WorkerLoad]:
    small = st.integers(0, 500)
    return st.builds(
        WorkerLoad, small, st.floats(0, 500), st.integers(0, 64), small, small, st.integers(0, 999)
    )


def clusters() -> st.SearchStrategy[list[Candidate]]:
    one = st.tuples(loads(), st.integers(0, 8), st.integers(0, 8))
    return st.lists(one, min_size=1, max_size=6).map(
        lambda drawn: [
            Candidate(process(f"decode-{n}"), load, device_units=device, host_units=host)
            for n, (load, device, host) in enumerate(drawn)
        ]
    )


def made(name: str, seed: int = 0) -> Policy:
    draw: Draw = Random(seed).randrange
    return POLICIES[name](draw)


@every_policy
@settings(max_examples=50, deadline=None)
@given(cluster=clusters(), stage=st.sampled_from(Stage))
def test_it_chooses_one_of_the_candidates(
    name: str, cluster: list[Candidate], stage: Stage
) -> None:
    assert made(name).choose(stage, NEED, cluster) in cluster


@every_policy
@settings(max_examples=30, deadline=None)
@given(rounds=st.lists(st.tuples(clusters(), st.sampled_from(Stage)), max_size=8))
def test_the_same_seed_and_history_give_the_same_choices(
    name: str, rounds: list[tuple[list[Candidate], Stage]]
) -> None:
    one, two = made(name, 5), made(name, 5)
    for cluster, stage in rounds:
        assert one.choose(stage, NEED, cluster) is two.choose(stage, NEED, cluster)


@every_policy
def test_equal_workers_share_what_comes_while_each_remembers_its_load(name: str) -> None:
    policy = made(name)
    given_to = dict.fromkeys((process(f"decode-{n}") for n in range(4)), 0)
    for _ in range(400):
        cluster = [
            Candidate(who, WorkerLoad(sequences=count, context_blocks=5 * count))
            for who, count in given_to.items()
        ]
        given_to[policy.choose(Stage.DECODE, NEED, cluster).process] += 1
    assert sum(given_to.values()) == 400
    assert all(70 <= count <= 130 for count in given_to.values())


@pytest.mark.parametrize("name", ["kv_aware", "least_loaded"])
@pytest.mark.parametrize("stage", Stage)
def test_those_that_look_at_load_avoid_the_loaded_one(name: str, stage: Stage) -> None:
    idle = Candidate(process("decode-0"), WorkerLoad())
    busy = Candidate(
        process("decode-1"),
        WorkerLoad(pending_tokens=900, sequences=9, context_blocks=90, blocks_used=90),
    )
    for cluster in ([idle, busy], [busy, idle]):
        assert made(name).choose(stage, NEED, cluster) is idle


def test_only_one_policy_looks_at_caches() -> None:
    cold = Candidate(process("decode-0"), WorkerLoad())
    warm = Candidate(process("decode-1"), WorkerLoad(), device_units=8)
    chosen = {name: made(name).choose(Stage.PREFILL, NEED, [cold, warm]) for name in POLICIES}
    assert chosen["kv_aware"] is warm
    assert chosen["least_loaded"] is cold
    assert chosen["round_robin"] is cold
