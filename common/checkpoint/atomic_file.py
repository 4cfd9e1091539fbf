"""A file in the cache is whole or absent.

Bytes go to a neighbour that is renamed over the target at the end. Whatever goes wrong, the
neighbour is removed, and a full disk is an error that says so.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from common.checkpoint.errors import writing


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("w+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
