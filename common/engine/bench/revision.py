"""Which code was measured."""

import subprocess
from pathlib import Path


def revision(folder: Path = Path(__file__).parent) -> dict[str, object]:
    """Commit of the checkout that holds `folder`, and whether files differ from it."""
    commit = _git(folder, "rev-parse", "HEAD")
    return {
        "commit": commit or "unknown",
        "modified": bool(_git(folder, "status", "--porcelain")),
    }


def _git(folder: Path, *arguments: str) -> str:
    """Empty where there is no git or no checkout."""
    try:
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
