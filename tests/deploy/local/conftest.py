from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.folders import Folders
from deploy.local.launch import shut_down


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Folders]:
    """A run folder in which nothing runs any more after the test."""
    result = Folders(tmp_path / "run")
    yield result
    shut_down(result, limit_s=10)
