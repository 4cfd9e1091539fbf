from pathlib import Path

import pytest

from loadtest.errors import LoadTestError
from loadtest.session import Session
from loadtest.writer import WordWriter
from tests.support.workload_examples import AZURE_LINES, azure_file, made, taken, texts


def sessions(folder: Path, lines: list[str] = AZURE_LINES, **parameters: object) -> list[Session]:
    return taken(made("azure", path=azure_file(folder, lines), **parameters), 1000)


def test_arrivals_and_lengths_are_those_of_the_trace(tmp_path: Path) -> None:
    drawn = sessions(tmp_path)
    assert [session.at_s for session in drawn] == pytest.approx([0.0, 0.052, 1.252], abs=1e-4)
    assert [len(text.split()) for text in texts(drawn)] == [480, 31, 320]
    assert [session.turns[0].max_tokens for session in drawn] == [10, 8, 64]


def test_lengths_are_divided(tmp_path: Path) -> None:
    drawn = sessions(tmp_path, divisor=16)
    assert [len(text.split()) for text in texts(drawn)] == [30, 2, 20]
    assert [session.turns[0].max_tokens for session in drawn] == [1, 1, 4]


def test_nothing_is_shared(tmp_path: Path) -> None:
    lines = [AZURE_LINES[0], *(f"2023-11-16 18:17:03.{n:07},40,4" for n in range(200))]
    begins = {tuple(text.split()[:5]) for text in texts(sessions(tmp_path, lines))}
    assert len(begins) == 200


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        ("2023-11-16 18:17:03", "2023-11-16 18:17:04", 1.0),
        ("2023-11-16 23:59:59.5000000", "2023-11-17 00:00:00.2500000", 0.75),
        ("2024-05-10 00:00:00.009930+00:00", "2024-05-10T01:00:00.009930+01:00", 0.0),
        ("2023-11-16T18:17:03.1Z", "2023-11-16T18:17:03.2Z", 0.1),
    ],
)
def test_a_timestamp_has_as_many_digits_as_it_likes(
    first: str, second: str, apart: float, tmp_path: Path
) -> None:
    lines = [AZURE_LINES[0], f"{first},4,4", f"{second},4,4"]
    assert [s.at_s for s in sessions(tmp_path, lines)] == pytest.approx([0.0, apart], abs=1e-5)


def test_columns_are_told_by_their_names(tmp_path: Path) -> None:
    lines = ["GeneratedTokens,ContextTokens,More,TIMESTAMP", '9,12,"a, b",2023-11-16 18:17:03']
    (session,) = sessions(tmp_path, lines)
    assert len(session.turns[0].messages[0].content.split()) == 12
    assert session.turns[0].max_tokens == 9


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("yesterday,4,4", "TIMESTAMP: "),
        ("2023-11-16 18:17:05.3,many,4", "ContextTokens: "),
        ("2023-11-16 18:17:05.3,4,0", "GeneratedTokens: "),
        ("2023-11-16 18:17:05.3,4", "GeneratedTokens: Field required"),
        ("2023-11-16 18:17:05.1,4,4", "is earlier than the row before it"),
    ],
)
def test_a_bad_row_stops_the_run_before_it_begins(line: str, why: str, tmp_path: Path) -> None:
    path = azure_file(tmp_path, [*AZURE_LINES, line])
    with pytest.raises(LoadTestError, match=f"trace.csv: line 5: {why}"):
        made("azure", path=path).sessions(0, WordWriter())


def test_a_file_of_other_columns_says_which_is_missing(tmp_path: Path) -> None:
    path = azure_file(tmp_path, ["time,in,out", "1,2,3"])
    with pytest.raises(LoadTestError, match=r"trace\.csv: line 2: TIMESTAMP: Field required"):
        made("azure", path=path).sessions(0, WordWriter())


@pytest.mark.parametrize("lines", [[], AZURE_LINES[:1]])
def test_a_trace_has_rows(lines: list[str], tmp_path: Path) -> None:
    with pytest.raises(LoadTestError, match=r"trace\.csv: has no rows"):
        made("azure", path=azure_file(tmp_path, lines)).sessions(0, WordWriter())


def test_a_missing_trace_says_where_it_comes_from() -> None:
    with pytest.raises(LoadTestError, match="Azure/AzurePublicDataset, data/"):
        made("azure", path="nowhere.csv").sessions(0, WordWriter())
