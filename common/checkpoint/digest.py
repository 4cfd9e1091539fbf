"""SHA-256 of files, remembered.

Hashing a model of gigabytes at each start would take longer than loading it. A record under the
cache folder holds the digest with the size and modification time it was taken at; a file that
differs in either is hashed again. The record is a hint: a damaged one is as good as none.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.checkpoint.atomic_file import atomic_file


@dataclass(frozen=True, slots=True)
class Digests:
    cache: Path | None
    """Folder for the records; None: nothing is remembered."""

    def of_file(self, path: Path) -> str:
        if self.cache is None:
            return hash_file(path)
        place, stat = str(path.resolve()), path.stat()
        stamp: list[str | int] = [place, stat.st_size, stat.st_mtime_ns]
        record = self.cache / "digests" / f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.json"
        if (known := _remembered(record, stamp)) is not None:
            return known
        digest = hash_file(path)
        with atomic_file(record) as file:
            file.write(json.dumps([*stamp, digest]).encode())
        return digest

    def of_files(self, paths: Iterable[Path]) -> str:
        """One digest over names and contents; folders above do not matter, nor the order given."""
        total = hashlib.sha256()
        for path in sorted(paths, key=lambda path: path.name):
            total.update(f"{path.name}\0{self.of_file(path)}\n".encode())
        return total.hexdigest()


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weights_digest(form: str, checkpoint: str, arithmetic: str) -> str:
    """Of weights as an engine uses them: `form` is what they were made into, and its version."""
    return hashlib.sha256(f"twinfleet {form}\0{checkpoint}\0{arithmetic}".encode()).hexdigest()


def _remembered(record: Path, stamp: Sequence[str | int]) -> str | None:
    try:
        *known, digest = json.loads(record.read_bytes())
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return digest if known == list(stamp) and isinstance(digest, str) else None
