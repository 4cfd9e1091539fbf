from collections import Counter
from itertools import pairwise

from loadtest.session import Session
from tests.support.workload_examples import made, taken, texts

SIZES = {"documents": 5, "document_tokens": 40, "question_tokens": 6}


def sessions(count: int, **parameters: object) -> list[Session]:
    return taken(made("documents", **SIZES | parameters), count)


def parts(drawn: list[Session]) -> list[tuple[str, str]]:
    """(document, question)"""
    split = [text.split() for text in texts(drawn)]
    return [(" ".join(words[:40]), " ".join(words[40:])) for words in split]


def test_a_request_is_a_document_and_then_a_question() -> None:
    drawn = sessions(200)
    assert all(len(session.turns[0].messages) == 1 for session in drawn)
    assert all(len(text.split()) == 46 for text in texts(drawn))
    assert len({document for document, _ in parts(drawn)}) == 5
    assert len({question for _, question in parts(drawn)}) == 200


def test_documents_are_as_likely_as_each_other() -> None:
    counts = Counter(document for document, _ in parts(sessions(2000)))
    assert all(330 <= count <= 470 for count in counts.values())


def test_in_random_order_one_may_come_twice_in_a_row() -> None:
    drawn = [document for document, _ in parts(sessions(200))]
    again = sum(before == after for before, after in pairwise(drawn))
    assert 20 <= again <= 60


def test_round_robin_asks_one_document_after_another() -> None:
    drawn = [document for document, _ in parts(sessions(20, order="round_robin"))]
    assert len(set(drawn[:5])) == 5
    assert drawn == drawn[:5] * 4


def test_both_orders_have_the_same_documents() -> None:
    both = [{one for one, _ in parts(sessions(200, order=o))} for o in ("random", "round_robin")]
    assert both[0] == both[1]


def test_the_default_is_forty_documents_of_1024_tokens() -> None:
    drawn = taken(made("documents"), 400)
    split = [text.split() for text in texts(drawn)]
    assert {len(words) for words in split} == {1024 + 64}
    assert len({" ".join(words[:1024]) for words in split}) == 40
    assert {turn.max_tokens for session in drawn for turn in session.turns} == set(range(16, 49))
