import gzip
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from loadtest.data_file import Source, bad_row, json_rows, lines_of
from loadtest.errors import LoadTestError

SOURCE = Source("Some traces", "somebody/traces", "data/*.jsonl", "MIT")


class Row(BaseModel):
    length: int = Field(ge=1)


def test_lines_are_numbered_and_blank_ones_left_out(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes("\ufeffone\r\n\n  \ntwo é".encode())
    assert list(lines_of(str(file))) == [(1, "one"), (4, "two é")]


def test_a_packed_file_is_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "a.txt.gz"
    file.write_bytes(gzip.compress(b"one\ntwo\n"))
    assert [line for _, line in lines_of(str(file))] == ["one", "two"]


def test_a_relative_path_is_relative_to_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("here")
    monkeypatch.chdir(tmp_path)
    assert list(lines_of("a.txt")) == [(1, "here")]


def test_a_missing_file_says_where_to_get_one() -> None:
    with pytest.raises(LoadTestError) as caught:
        list(lines_of("nowhere/a.jsonl", SOURCE))
    assert str(caught.value).splitlines() == [
        "nowhere/a.jsonl: no such file. Where to get one:",
        "  Some traces: github.com/somebody/traces, data/*.jsonl (MIT)",
    ]
    with pytest.raises(LoadTestError, match=r"^nowhere/a\.jsonl: no such file$"):
        list(lines_of("nowhere/a.jsonl"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.gz", b"this is not packed"),
        ("b.gz", gzip.compress(b"one two three " * 50)[:-20]),
        ("c.gz", gzip.compress(bytes(range(100)))[:15] + b"\xff" * 30),
        ("d.txt", b"\xff\xfe\x00broken"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(LoadTestError, match=f"{name}: cannot be read"):
        list(lines_of(str(file)))


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(LoadTestError, match="cannot be read"):
        list(lines_of(str(tmp_path)))


def test_json_rows_come_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"length": 1, "more": 0}\n\n{"length": 2}\n')
    assert list(json_rows(str(file), Row)) == [(1, Row(length=1)), (3, Row(length=2))]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "line 2: Invalid JSON"),
        ("[1]", "line 2: Input should be an object"),
        ("{}", "line 2: length: Field required"),
        ('{"length": 0}', "line 2: length: Input should be greater"),
        ('{"length": "long"}', "line 2: length: Input should be a valid integer"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(f'{{"length": 1}}\n{line}\n')
    rows = json_rows(str(file), Row)
    next(rows)
    with pytest.raises(LoadTestError, match=f"a.jsonl: {why}"):
        next(rows)


def test_an_error_about_a_row() -> None:
    assert str(bad_row("a.csv", 3, "is odd")) == "a.csv: line 3: is odd"
