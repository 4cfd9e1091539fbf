"""Nothing that comes from elsewhere becomes a part of the page."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.report.html import embedded_json, escaped, facts, paragraphs, table
from loadtest.tables import Cell, Columns, Table
from tests.support.load_summaries import HOSTILE


@given(st.text())
def test_escaped_text_has_nothing_that_means_anything(text: str) -> None:
    assert not set(escaped(text)) & set("<>\"'")


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()))
def test_embedded_json_reads_back_and_cannot_end_its_element(value: dict[str, object]) -> None:
    text = embedded_json(value)
    assert json.loads(text) == value
    assert "<" not in text


def test_not_a_number_is_not_embedded() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        embedded_json({"a": float("nan")})


def hostile_table(*, folded: bool) -> Table:
    return Table(
        title=HOSTILE,
        columns=(Columns(HOSTILE, (HOSTILE, "b")), Columns("", ("c",))),
        rows=((Cell(HOSTILE, "name"), Cell("1"), Cell("2", "bad")),),
        notes=(HOSTILE,),
        folded=folded,
    )


@pytest.mark.parametrize("folded", [True, False])
def test_every_part_of_a_table_is_escaped(*, folded: bool) -> None:
    text = table(hostile_table(folded=folded))
    assert "<img" not in text
    assert "<script" not in text
    assert text.count("&lt;img") == 5


def test_a_table_has_groups_above_names_and_kinds_as_classes() -> None:
    text = table(hostile_table(folded=False))
    assert '<th colspan="2" class="begins">' in text
    assert '<th class="begins name">' in text
    assert '<td class="bad">2</td>' in text


def test_a_folded_table_opens_on_demand() -> None:
    assert table(hostile_table(folded=True)).startswith("<details><summary>")


def test_facts_and_paragraphs_are_escaped_and_what_is_empty_left_out() -> None:
    assert facts([("a", "<b>"), ("gone", "")]) == (
        '<dl class="facts"><div><dt>a</dt><dd>&lt;b&gt;</dd></div></dl>'
    )
    assert paragraphs(["<"], "note") == '<p class="note">&lt;</p>'
