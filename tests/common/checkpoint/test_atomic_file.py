import errno
from pathlib import Path

import pytest

from common.checkpoint.atomic_file import atomic_file
from common.checkpoint.errors import CheckpointError


def write(place: Path, content: bytes, failure: Exception | None = None) -> None:
    with atomic_file(place) as file:
        file.write(content)
        if failure is not None:
            raise failure


def test_the_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "file"
    write(place, b"new")
    with pytest.raises(ZeroDivisionError):
        write(place, b"half", ZeroDivisionError())
    assert place.read_bytes() == b"new"
    assert list(place.parent.iterdir()) == [place]


def test_nobody_sees_the_file_before_it_is_whole(tmp_path: Path) -> None:
    place = tmp_path / "file"
    with atomic_file(place) as file:
        file.write(b"half")
        file.flush()
        assert not place.exists()
    assert place.read_bytes() == b"half"


@pytest.mark.parametrize(
    ("code", "advice"), [(errno.ENOSPC, "no space left"), (errno.EROFS, "not writable")]
)
def test_a_disk_that_refuses_is_explained_and_leaves_nothing(
    code: int, advice: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=advice):
        write(tmp_path / "file", b"half", OSError(code, "refused"))
    assert list(tmp_path.iterdir()) == []


def test_other_failures_of_the_disk_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="odd"):
        write(tmp_path / "file", b"half", OSError(errno.EIO, "odd"))
