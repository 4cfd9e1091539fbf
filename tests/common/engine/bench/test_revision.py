import subprocess
from pathlib import Path

import pytest

from common.engine.bench.revision import revision


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(
        ["git", "-C", folder, *identity, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("a")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def test_a_clean_checkout_is_its_commit(checkout: Path) -> None:
    assert revision(checkout) == {"commit": git(checkout, "rev-parse", "HEAD"), "modified": False}


def test_changes_are_told(checkout: Path) -> None:
    (checkout / "file").write_text("b")
    assert revision(checkout)["modified"] is True


def test_outside_a_checkout_it_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert revision(tmp_path) == {"commit": "unknown", "modified": False}


def test_without_git_it_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert revision(tmp_path)["commit"] == "unknown"
