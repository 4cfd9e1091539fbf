"""A file in the cache that the first process to need it makes, while the others wait.

`read` tells a sound file from a damaged one (None), so one that was cut short is made again. What
is given out was always read back from the file, whoever made it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from common.checkpoint.errors import CheckpointError
from common.checkpoint.file_lock import file_lock

Content = TypeVar("Content")


def made_once(
    place: Path, read: Callable[[Path], Content | None], make: Callable[[Path], None]
) -> Content:
    """`make` must put the file there whole (see `atomic_file`)."""
    if (content := read(place)) is not None:
        return content
    with file_lock(place.with_suffix(".lock")):
        if (content := read(place)) is not None:
            return content
        make(place)
        if (content := read(place)) is not None:
            return content
    raise CheckpointError(f"{place} cannot be read back after it was written: is the disk sound?")
