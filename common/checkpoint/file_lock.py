"""One process at a time may fill a place in the cache; the kernel frees the lock of a dead one."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.checkpoint.errors import writing


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Wait for, and hold, an exclusive lock on `path`; the empty file stays behind on purpose."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
