"""Columns add up, each for itself."""

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from common.domain.ledger import Ledger

COLUMNS = [column.name for column in fields(Ledger)]
NUMBERS = st.lists(st.integers(0, 10**9), min_size=len(COLUMNS), max_size=len(COLUMNS))


@given(NUMBERS, NUMBERS)
def test_adding_adds_every_column_and_leaves_the_other_alone(
    ours: list[int], theirs: list[int]
) -> None:
    total, other = Ledger(*ours), Ledger(*theirs)
    total.add(other)
    assert [getattr(total, name) for name in COLUMNS] == [
        mine + its for mine, its in zip(ours, theirs, strict=True)
    ]
    assert other == Ledger(*theirs)


def test_an_empty_ledger_changes_nothing() -> None:
    ledger = Ledger(*range(1, len(COLUMNS) + 1))
    before = Ledger(*range(1, len(COLUMNS) + 1))
    ledger.add(Ledger())
    assert ledger == before


def test_cached_tokens_are_those_of_all_tiers() -> None:
    assert Ledger(cached_device_tokens=3, cached_host_tokens=40).cached_tokens == 43
    assert Ledger(prefill_computed_tokens=9, recomputed_tokens=9).cached_tokens == 0
