"""What a comparison and a search found, row by row."""

import pytest

from loadtest.comparison import HEADLINE
from loadtest.ratio_tables import ratio_tables, search_table, words
from tests.support.load_summaries import compared, one, searched, searches_compared, swept


@pytest.mark.parametrize(
    ("figure", "told"),
    [
        ("ttft_ms.p50", "TTFT P50, ms"),
        ("itl_token_ms.max", "ITL by token max, ms"),
        ("output_tokens_s", "output tokens/s"),
        ("most_running", "most running"),
    ],
)
def test_a_figure_in_words(figure: str, told: str) -> None:
    assert words(figure) == told


def test_without_a_comparison_there_is_no_table() -> None:
    assert ratio_tables(one()[0]) == []


def test_claims_come_first_then_what_counts_then_the_rest_folded() -> None:
    claims, chosen, rest = ratio_tables(compared()[0])
    assert [row[-1].text for row in claims.rows] == ["met firmly", "missed"]
    assert [row[-1].kind for row in claims.rows] == ["good", "bad"]
    there = [name for name in HEADLINE if name != "knee"]
    assert [row[0].text for row in chosen.rows] == [words(name) for name in there]
    assert rest.folded
    assert len(rest.rows) > len(chosen.rows)


def test_a_ratio_stands_beside_the_values_it_is_of() -> None:
    summary, runs = compared()
    chosen = ratio_tables(summary)[1]
    new, old = chosen.rows[0][1].text, chosen.rows[0][2].text
    values = [run.values()["main.ttft_ms.p50"] for run in runs if run.side == "new"]
    assert float(new.replace(",", "")) == pytest.approx(sum(values) / 3, rel=0.01)
    assert float(new.replace(",", "")) < float(old.replace(",", ""))
    assert chosen.rows[0][3].text.endswith("×")
    assert chosen.rows[0][-1].text == "better"


def test_what_searches_found_is_a_headline() -> None:
    (chosen,) = ratio_tables(searches_compared()[0])
    (row,) = chosen.rows
    assert row[0].text == "knee found by the search, 1/s"
    new, old = (float(cell.text) for cell in row[1:3])
    assert new > old, "what each of them found, on average"
    assert row[-1].text == "better"


def test_pairs_without_a_ratio_are_counted() -> None:
    chosen = ratio_tables(compared()[0])[1]
    misses = next(row for row in chosen.rows if row[0].text == "misses")
    assert misses[3].text == "–"
    assert misses[5].text == "0 of 3"


def test_answers_that_agree_are_told() -> None:
    assert any("60" in note or "180" in note for note in ratio_tables(compared()[0])[1].notes)


def test_a_search_lists_its_rates_in_order() -> None:
    search = searched()[0].search
    assert search is not None
    table = search_table(search)
    rates = [float(row[0].text) for row in table.rows]
    assert rates == sorted(rates)
    assert [row[-1].kind for row in table.rows] == sorted(
        (row[-1].kind for row in table.rows), reverse=True
    )


def test_a_sweep_says_of_each_rate_whether_it_is_kept_up_with() -> None:
    search = swept()[0].search
    assert search is not None
    table = search_table(search)
    assert table.rows[0][-1].text == "yes"
    assert table.rows[-1][-1].kind == "bad"
