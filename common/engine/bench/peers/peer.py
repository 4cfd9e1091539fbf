"""What an adapter must offer: the workload's engine, and two words about itself.

Standard library alone: peers import it with their own interpreters.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from common.engine.bench.workload import Engine


class Peer(Engine, Protocol):
    @property
    def about(self) -> str:
        """Name and version."""

    @property
    def caches_prefixes(self) -> bool:
        """A prompt that comes again is computed only at its end."""


Open = Callable[[str, int, Mapping[str, str]], Peer]
"""Of a model's path, a thread count and options. Thread counts are the process's."""
