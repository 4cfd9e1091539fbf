from collections import Counter
from pathlib import Path

import pytest

from loadtest.errors import LoadTestError
from loadtest.session import Session
from loadtest.writer import WordWriter
from tests.support.workload_examples import made, prompts_file, taken, texts, written


def sessions(folder: Path, count: int = 100, seed: int = 0, **parameters: object) -> list[Session]:
    return taken(made("prompts", path=prompts_file(folder), **parameters), count, seed)


def test_a_conversation_is_a_session_of_so_many_turns(tmp_path: Path) -> None:
    drawn = sessions(tmp_path, shuffle=False)
    assert len(drawn) == 12
    assert all(len(session.turns) == 2 for session in drawn)
    assert list(texts(drawn))[:4] == ["first 0", "second 0", "first 1", "second 1"]
    assert {turn.max_tokens for session in drawn for turn in session.turns} == {256}


def test_shuffled_it_is_the_same_in_the_order_of_the_seed(tmp_path: Path) -> None:
    plain = list(texts(sessions(tmp_path, shuffle=False)))
    orders = [list(texts(sessions(tmp_path, seed=seed))) for seed in (1, 2, 1)]
    assert orders[0] != orders[1]
    assert orders[0] == orders[2]
    assert all(sorted(order) == sorted(plain) for order in orders)
    assert all(order[2 * n].split()[1] == order[2 * n + 1].split()[1] for order in orders
               for n in range(12))  # fmt: skip


def test_unshuffled_every_seed_is_the_same(tmp_path: Path) -> None:
    one, two = (sessions(tmp_path, seed=seed, shuffle=False) for seed in (1, 2))
    assert one == two


def test_repeated_every_round_has_every_prompt(tmp_path: Path) -> None:
    drawn = list(texts(sessions(tmp_path, 36, repeat=True)))[::2]
    rounds = [drawn[:12], drawn[12:24], drawn[24:]]
    assert all(Counter(one) == Counter(rounds[0]) for one in rounds)
    assert len({tuple(one) for one in rounds}) == 3
    again = list(texts(sessions(tmp_path, 24, repeat=True, shuffle=False)))
    assert again[:24] == again[24:]


def test_output_is_as_drawn(tmp_path: Path) -> None:
    lengths = {"kind": "uniform", "low": 3, "high": 4}
    drawn = sessions(tmp_path, output_tokens=lengths)
    assert {turn.max_tokens for session in drawn for turn in session.turns} == {3, 4}


def test_a_given_format_is_taken_at_its_word(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"question": "How?"}\n')
    (as_lines,) = taken(made("prompts", path=path, format="lines"), 5)
    assert list(texts([as_lines])) == ['{"question": "How?"}']
    (read,) = taken(made("prompts", path=path), 5)
    assert list(texts([read])) == ["How?"]
    with pytest.raises(LoadTestError, match=r"a\.jsonl: line 1: turns: "):
        made("prompts", path=path, format="mt_bench").sessions(0, WordWriter())


def test_a_missing_file_is_an_error_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(LoadTestError, match="no such file"):
        made("prompts", path=str(tmp_path / "nowhere")).sessions(0, WordWriter())
