from collections import Counter
from itertools import pairwise

import pytest

from loadtest.session import Session
from tests.support.workload_examples import made, taken, texts

VARYING = {"kind": "uniform", "low": 20, "high": 60}


def sessions(count: int = 400, **parameters: object) -> list[Session]:
    return taken(
        made("shared_prefix", **{"groups": 8, "prefix_tokens": VARYING} | parameters), count
    )


def prefixes(drawn: list[Session]) -> list[str]:
    return [session.turns[0].messages[0].content for session in drawn]


def lengths(drawn: list[Session]) -> list[tuple[int, ...]]:
    return [
        (*(len(one.content.split()) for one in session.turns[0].messages), turn.max_tokens)
        for session in drawn
        for turn in session.turns
    ]


def test_the_prefix_is_a_system_message_before_the_users() -> None:
    for session in sessions(20):
        (turn,) = session.turns
        assert [message.role for message in turn.messages] == ["system", "user"]


def test_there_are_as_many_prefixes_as_groups_and_no_two_prompts_alike() -> None:
    drawn = sessions()
    assert len(set(prefixes(drawn))) == 8
    assert len(set(texts(drawn))) == 400


def test_groups_have_lengths_of_their_own() -> None:
    of_groups = {len(prefix.split()) for prefix in prefixes(sessions())}
    assert len(of_groups) > 3
    assert all(20 <= length <= 60 for length in of_groups)


def test_unshared_is_the_same_but_for_the_words_of_prefixes() -> None:
    warm, cold = sessions(), sessions(shared=False)
    assert lengths(warm) == lengths(cold)
    assert list(texts(warm)) == list(texts(cold))
    assert len(set(prefixes(cold))) == 400
    first = Counter(tuple(prefix.split()[:6]) for prefix in prefixes(cold))
    assert max(first.values()) == 1, "nothing long enough to share"


def test_without_zipf_groups_are_alike() -> None:
    counts = Counter(prefixes(sessions(4000)))
    assert all(400 <= count <= 600 for count in counts.values())


@pytest.mark.parametrize("zipf", [0.5, 1.0, 1.5])
def test_zipf_makes_the_nth_group_so_much_rarer(zipf: float) -> None:
    counts = [count for _, count in Counter(prefixes(sessions(8000, zipf=zipf))).most_common()]
    weights = [1 / rank**zipf for rank in range(1, 9)]
    for count, weight in zip(counts, weights, strict=True):
        assert count == pytest.approx(8000 * weight / sum(weights), rel=0.12)
    assert all(more >= fewer for more, fewer in pairwise(counts))


def test_one_group_is_one_system_prompt_for_all() -> None:
    assert len(set(prefixes(sessions(30, groups=1)))) == 1


def test_a_seed_has_prefixes_of_its_own() -> None:
    workload = made("shared_prefix", groups=8, prefix_tokens=20)
    assert not set(prefixes(taken(workload, 50, 1))) & set(prefixes(taken(workload, 50, 2)))
