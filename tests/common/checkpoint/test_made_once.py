from pathlib import Path

import pytest

from common.checkpoint.errors import CheckpointError
from common.checkpoint.made_once import made_once


def read(place: Path) -> str | None:
    """A text that is whole ends in a full stop."""
    text = place.read_text() if place.exists() else ""
    return text if text.endswith(".") else None


def unexpected(place: Path) -> None:
    raise AssertionError("made again")


def test_what_is_missing_or_damaged_is_made_and_then_read(tmp_path: Path) -> None:
    place = tmp_path / "folder" / "text.txt"
    for text in ("first.", "second."):
        assert made_once(place, read, lambda place, text=text: place.write_text(text)) == text
        assert made_once(place, read, unexpected) == text
        place.write_text("sec")


def test_what_another_process_made_in_the_meantime_is_used(tmp_path: Path) -> None:
    reads = iter([None, "theirs."])
    assert made_once(tmp_path / "x", lambda place: next(reads), unexpected) == "theirs."


def test_a_file_that_does_not_come_back_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be read back"):
        made_once(tmp_path / "x", read, lambda place: place.write_text("half"))
