"""Tables hold every figure that is there, and mark those that rest on too little."""

from loadtest.summary import Summary
from loadtest.tables import (
    UNFIRM,
    UNFIRM_NOTE,
    Table,
    errors,
    failures,
    label_columns,
    latency,
    server,
    throughput,
)
from tests.support.load_records import Server, measurement
from tests.support.load_summaries import HOSTILE, compared, made, one, swept


def names(table: Table) -> list[str]:
    return [f"{g.heading} {name}".strip() for g in table.columns for name in g.names]


def row(table: Table, number: int = 0) -> dict[str, str]:
    cells = [cell.text for cell in table.rows[number]]
    return dict(zip(names(table), cells, strict=True))


def test_rows_are_labelled_by_what_differs_only() -> None:
    assert label_columns(one()[0]) == ("load",)
    assert label_columns(compared()[0]) == ("side", "seed")
    assert label_columns(swept()[0]) == ("rate",)
    run = measurement()
    run.records[0].load = "batch"
    assert label_columns(made([run])[0]) == ("load",)


def test_rates_stand_in_order_whatever_was_tried_first() -> None:
    table = throughput(swept((12, 2, 6))[0])
    assert [cells[0].text for cells in table.rows] == ["2", "6", "12"]


def test_every_row_has_a_cell_a_column() -> None:
    for make in (one, compared, swept):
        summary: Summary = make()[0]
        for table in (throughput(summary), latency(summary)):
            assert table.rows
            assert {len(cells) for cells in table.rows} == {len(names(table))}


def test_throughput_tells_counts_targets_and_the_server() -> None:
    summary, runs = one()
    measures = runs[0].loads()["main"]
    cells = row(throughput(summary))
    assert cells["requests sent"] == "60"
    assert cells["requests missed"] == str(measures.misses)
    assert cells["targets attainment"].endswith("%")
    assert cells["server prompt cached"].endswith("%")
    assert "requests left" not in cells
    assert "server acceptance length" not in cells


def test_misses_are_marked() -> None:
    kinds = [cell.kind for cell in throughput(one()[0]).rows[0]]
    assert "bad" in kinds
    assert "bad" not in [cell.kind for cell in throughput(swept()[0]).rows[0]]


def test_percentiles_of_few_requests_are_marked_and_explained() -> None:
    few = latency(made([measurement(count=199)])[0])
    assert row(few)["TTFT P90"].startswith(UNFIRM)
    assert row(few)["TTFT P99"].startswith(UNFIRM)
    assert not row(few)["TTFT P50"].startswith(UNFIRM)
    assert UNFIRM_NOTE in few.notes


def test_percentiles_of_enough_requests_are_not() -> None:
    many = latency(made([measurement(count=1000, rate=6, server=Server(tokens=3))])[0])
    assert not any(text.startswith(UNFIRM) for text in row(many).values())
    assert UNFIRM_NOTE not in many.notes


def test_gaps_are_shown_once_where_chunks_are_tokens() -> None:
    run = measurement()
    assert "ITL, by chunk P50" not in row(latency(made([run])[0]))
    for record in run.records:
        record.chunk_tokens = [2] * len(record.chunks_s)
        record.output_tokens = 2 * len(record.chunks_s)
    shown = row(latency(made([run])[0]))
    assert float(shown["ITL, by token P50"]) < float(shown["ITL, by chunk P50"])


def test_failures_say_what_was_said() -> None:
    summary, runs = one()
    table, counted = failures(summary), errors(summary)
    assert table is not None
    assert counted is not None
    assert row(table)["what was said"] == HOSTILE
    assert sum(int(cells[1].text) for cells in counted.rows) == runs[0].loads()["main"].misses


def test_without_failures_there_is_no_table() -> None:
    assert failures(swept()[0]) is None
    assert errors(swept()[0]) is None


def test_the_servers_figures_have_a_column_a_run() -> None:
    table = server(compared()[0])
    assert table is not None
    assert names(table)[:3] == ["figure", "new 0", "old 0"]
    assert row(table)["figure"] == "preemptions"
    assert table.folded
