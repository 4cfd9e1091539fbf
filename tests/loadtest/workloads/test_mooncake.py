from itertools import takewhile
from pathlib import Path
from random import Random

import pytest
from pydantic import ValidationError

from loadtest.errors import LoadTestError
from loadtest.session import Session
from loadtest.writer import WordWriter
from tests.support.workload_examples import TRACE, made, mooncake_file, taken, texts


def sessions(folder: Path, rows: list[object] | None = None, **parameters: object) -> list[Session]:
    path = mooncake_file(folder, TRACE if rows is None else rows)
    return taken(made("mooncake", path=path, **parameters), 10**6)


def shared(one: str, two: str) -> int:
    pairs = zip(one.split(), two.split(), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def row(ids: list[int], at: int = 0, tokens: int | None = None) -> dict[str, object]:
    length = 512 * len(ids) if tokens is None else tokens
    return {"timestamp": at, "input_length": length, "output_length": 9, "hash_ids": ids}


def test_arrivals_and_lengths_are_those_of_the_trace(tmp_path: Path) -> None:
    drawn = sessions(tmp_path)
    assert [session.at_s for session in drawn] == [0.0, 0.0, 2.25, 2.5]
    assert [len(text.split()) for text in texts(drawn)] == [1100, 1024, 600, 30]
    assert [session.turns[0].max_tokens for session in drawn] == [20, 33, 1, 500]


def test_equal_ids_are_equal_text_and_others_are_not(tmp_path: Path) -> None:
    first, second, third, fourth = texts(sessions(tmp_path))
    assert shared(first, second) == 1024
    assert 512 <= shared(first, third) < 520
    assert shared(first, fourth) < 8


def test_divided_prompts_share_the_same_blocks(tmp_path: Path) -> None:
    drawn = sessions(tmp_path, divisor=16)
    assert [len(text.split()) for text in texts(drawn)] == [69, 64, 38, 2]
    first, second, third, _ = texts(drawn)
    assert shared(first, second) == 64
    assert 32 <= shared(first, third) < 40
    assert [session.turns[0].max_tokens for session in drawn] == [2, 3, 1, 32]
    assert [session.at_s for session in drawn] == [0.0, 0.0, 2.25, 2.5]


def test_text_depends_on_the_seed_and_the_id_alone(tmp_path: Path) -> None:
    here, there = tmp_path / "a", tmp_path / "b"
    here.mkdir()
    there.mkdir()
    one = next(texts(sessions(here, [row([1, 2, 3])])))
    other = list(texts(sessions(there, [row([9]), row([1, 2, 3]), row([1, 4])])))
    assert other[1] == one
    again = taken(made("mooncake", path=mooncake_file(here, [row([1, 2, 3])])), 1, seed=1)
    assert shared(next(texts(again)), one) < 8


def test_hits_of_an_infinite_cache_are_those_of_the_ids(tmp_path: Path) -> None:
    random = Random(5)
    chains: list[list[int]] = [[]]
    for fresh in range(300):
        before = random.choice(chains)
        if len(before) < 12:
            chains.append([*before, fresh])
    rows: list[object] = [row(chain, at) for at, chain in enumerate(chains[1:])]
    by_text = _hits([text.split() for text in texts(sessions(tmp_path, rows, divisor=32))], 16)
    by_id = _hits(chains[1:], 1)
    assert by_text == by_id
    assert 0.3 < by_id < 0.95


def _hits(prompts: list[list[str]] | list[list[int]], block: int) -> float:
    """Share of whole blocks whose whole prefix was seen before."""
    seen: set[tuple[str | int, ...]] = set()
    total = found = 0
    for prompt in prompts:
        for end in range(block, len(prompt) + 1, block):
            prefix = tuple(prompt[:end])
            total, found = total + 1, found + (prefix in seen)
            seen.add(prefix)
    return found / total


def test_many_blocks_later_an_id_is_still_the_same_text(tmp_path: Path) -> None:
    others: list[object] = [row([fresh], 1) for fresh in range(10_000, 14_500)]
    drawn = list(texts(sessions(tmp_path, [row([7]), *others, row([7], 2)], divisor=512)))
    assert drawn[0] == drawn[-1]
    whole = sessions(tmp_path, [row([7]), row([7], 1)])
    first, last = texts(whole)
    assert first == last


def test_blocks_may_have_another_length(tmp_path: Path) -> None:
    rows: list[object] = [row([1, 2, 3], tokens=40), row([1, 2, 4], tokens=48)]
    first, second = texts(sessions(tmp_path, rows, block_tokens=16))
    assert 32 <= shared(first, second) < 40
    assert len(first.split()) == 40


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (row([1, 2], tokens=500), "hash_ids: are 2, but 500 tokens are 1 blocks of 512"),
        (row([1], tokens=513), "hash_ids: are 1, but 513 tokens are 2 blocks"),
        (row([1]) | {"timestamp": -1}, "timestamp: "),
        (row([1]) | {"output_length": 0}, "output_length: "),
        (row([]), "input_length: "),
        ({"timestamp": 0}, "input_length: Field required"),
        (row([1]) | {"hash_ids": ["a"]}, "hash_ids.0: "),
    ],
)
def test_a_bad_row_stops_the_run_before_it_begins(
    bad: dict[str, object], why: str, tmp_path: Path
) -> None:
    path = mooncake_file(tmp_path, [row([1]), bad])
    with pytest.raises(LoadTestError, match=f"trace.jsonl: line 2: {why}"):
        made("mooncake", path=path).sessions(0, WordWriter())


def test_a_divisor_must_divide_the_blocks() -> None:
    with pytest.raises(ValidationError, match="divisor 7 does not divide block_tokens 512"):
        made("mooncake", path="a.jsonl", divisor=7)


def test_a_missing_trace_says_where_it_comes_from() -> None:
    with pytest.raises(LoadTestError, match="kvcache-ai/Mooncake, FAST25-release/traces/"):
        made("mooncake", path="nowhere.jsonl").sessions(0, WordWriter())
