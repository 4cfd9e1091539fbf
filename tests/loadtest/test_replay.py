from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from loadtest.errors import LoadTestError
from loadtest.replay import Recorded, Replay
from loadtest.session import Session
from loadtest.writer import Writer

ROWS = [
    Recorded(1, 10.0, 320, 33, (1,)),
    Recorded(2, 12.5, 4000, 100, (2,)),
    Recorded(5, 12.5, 16, 1, (3,)),
    Recorded(6, 20.0, 17, 16, (4,)),
]


class Given(Replay):
    kind: Literal["given"] = "given"
    rows: Sequence[Recorded] = ()

    def recorded(self) -> Iterator[Recorded]:
        return iter(self.rows)

    def sessions(self, seed: int, writer: Writer) -> Iterator[Session]:
        raise NotImplementedError


def replay(rows: Sequence[Recorded] = ROWS, **parameters: int) -> list[Recorded]:
    return Given.model_validate({"path": "a.jsonl", "rows": rows, **parameters}).kept()


def test_all_rows_are_kept_as_they_are_but_from_the_first() -> None:
    kept = replay()
    assert [row.at_s for row in kept] == [0.0, 2.5, 2.5, 10.0]
    assert [(row.prompt_tokens, row.output_tokens) for row in kept] == [
        (320, 33),
        (4000, 100),
        (16, 1),
        (17, 16),
    ]
    assert [row.hash_ids for row in kept] == [(1,), (2,), (3,), (4,)]


def test_lengths_are_divided_and_rounded_up() -> None:
    kept = replay(divisor=16)
    assert [row.prompt_tokens for row in kept] == [20, 250, 1, 2]
    assert [row.output_tokens for row in kept] == [3, 7, 1, 1]


def test_rows_too_long_after_division_are_left_out() -> None:
    assert [row.line for row in replay(longest_tokens=353)] == [1, 5, 6]
    assert [row.line for row in replay(longest_tokens=352)] == [5, 6]
    assert [row.line for row in replay(longest_tokens=23, divisor=16)] == [1, 5, 6]


def test_time_begins_with_the_first_row_that_is_kept() -> None:
    assert [row.at_s for row in replay(longest_tokens=100)] == [0.0, 7.5]


def test_the_limit_is_of_rows_that_are_kept() -> None:
    assert [row.line for row in replay(limit=2)] == [1, 2]
    assert [row.line for row in replay(limit=2, longest_tokens=400)] == [1, 5]


def test_rows_after_the_limit_are_not_read() -> None:
    falling = [*ROWS, Recorded(7, 0.0, 1, 1)]
    assert len(replay(falling, limit=4)) == 4


def test_that_all_rows_are_too_long_is_an_error_and_not_an_empty_run() -> None:
    with pytest.raises(LoadTestError, match=r"a\.jsonl: every row .* longest_tokens = 16"):
        replay(longest_tokens=16)


def test_a_trace_has_rows() -> None:
    with pytest.raises(LoadTestError, match=r"a\.jsonl: has no rows"):
        replay([])


def test_time_does_not_go_back() -> None:
    with pytest.raises(LoadTestError, match=r"a\.jsonl: line 9: is earlier"):
        replay([*ROWS, Recorded(9, 19.9, 1, 1)])


@pytest.mark.parametrize("bad", [{"divisor": 0}, {"limit": -1}, {"longest_tokens": -1}])
def test_parameters_that_make_no_sense_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match=next(iter(bad))):
        replay(ROWS, **bad)


@given(
    drawn=st.lists(
        st.tuples(st.floats(0, 1e6), st.integers(1, 10**6), st.integers(1, 10**4)), min_size=1
    ),
    divisor=st.integers(1, 512),
)
def test_order_and_gaps_stay_as_recorded(drawn: list[tuple[float, int, int]], divisor: int) -> None:
    drawn.sort(key=lambda one: one[0])
    rows = [Recorded(line, *one) for line, one in enumerate(drawn)]
    kept = replay(rows, divisor=divisor)
    assert [row.line for row in kept] == [row.line for row in rows]
    assert all(row.prompt_tokens >= 1 and row.output_tokens >= 1 for row in kept)
    for before, after in pairwise(zip(rows, kept, strict=True)):
        gap = after[0].at_s - before[0].at_s
        assert after[1].at_s - before[1].at_s == pytest.approx(gap, abs=1e-6)
