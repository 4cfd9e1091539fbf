import fcntl
from pathlib import Path

import pytest

from common.checkpoint.errors import CheckpointError
from common.checkpoint.file_lock import file_lock


def is_free(path: Path) -> bool:
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_the_lock_is_held_inside_and_free_after_even_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    with file_lock(path):
        assert not is_free(path)
    assert is_free(path)
    with pytest.raises(ZeroDivisionError), file_lock(path):
        raise ZeroDivisionError
    assert is_free(path)


def test_a_cache_that_is_no_folder_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(CheckpointError, match="not writable"),
        file_lock(tmp_path / "file" / "lock"),
    ):
        pass
