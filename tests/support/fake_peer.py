"""An engine without a model for the peers' benchmark. Standard library alone, as a peer's own
interpreter may have nothing else."""

import sys
import time
from collections.abc import Mapping

from common.engine.bench.workload import Progress


class FakePeer:
    """Each step brings every stream one token, after a pause."""

    def __init__(self, pause_s: float = 0.0, caches_prefixes: bool = True) -> None:
        self.about = "fake 1.0"
        self.caches_prefixes = caches_prefixes
        self.prompts: list[list[int]] = []
        self.dropped: list[str] = []
        self._pause_s = pause_s
        self._left: dict[str, int] = {}

    def add(self, name: str, prompt: list[int], tokens: int) -> None:
        assert name not in self._left
        self.prompts.append(prompt)
        self._left[name] = tokens

    def drop(self, name: str) -> None:
        self.dropped.append(name)
        del self._left[name]

    def step(self) -> list[Progress]:
        time.sleep(self._pause_s)
        progress = []
        for name in list(self._left):
            self._left[name] -= 1
            progress.append(Progress(name, 1, self._left[name] == 0))
            if self._left[name] == 0:
                del self._left[name]
        return progress


def open_engine(model: str, threads: int, options: Mapping[str, str]) -> FakePeer:
    """Talks where answers are expected, as libraries do. A model called `broken` does not open."""
    sys.stdout.write(f"loading {model}\n")
    if model.endswith("broken"):
        raise MemoryError("no such model")
    return FakePeer(caches_prefixes=options.get("caches", "yes") == "yes")
