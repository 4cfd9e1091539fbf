"""What goes wrong while a model is read: a missing key, a damaged file, no space, no network.

Raised while a process starts, before it serves anybody, so the message is written for the person at
the terminal: it names the file, the key, and what to do.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.domain.errors import ServingError


class CheckpointError(ServingError):
    pass


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Put the file's name before what is wrong with it."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{file}: {error}") from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Explain a disk that is full or may not be written; other failures stay what they are."""
    try:
        yield
    except OSError as error:
        match error.errno:
            case errno.ENOSPC | errno.EDQUOT:
                advice = "no space left: free some, or move the cache (TWINFLEET_CACHE)"
            case errno.EACCES | errno.EPERM | errno.EROFS | errno.EEXIST | errno.ENOTDIR:
                advice = "not writable: move the cache to a folder that is (TWINFLEET_CACHE)"
            case _:
                raise
        raise CheckpointError(f"cannot write {path}: {advice}") from error
