"""Our side of a conversation with one engine in one process. See `peer_side`."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from common.domain.errors import ServingError
from common.engine.bench.peers.cases import Case

_ROOT = Path(__file__).parents[4]
"""What a foreign interpreter needs to find this package."""
_END_S = 30.0


class PeerFailed(ServingError):
    """The engine's process ended; why stands in its own output."""


@dataclass(frozen=True, slots=True)
class PeerOrder:
    name: str
    python: Path
    adapter: str
    """`module:function`"""
    model: Path
    threads: int
    options: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


class PeerProcess:
    """Use it in a `with`: the process ends with the block."""

    def __init__(self, order: PeerOrder) -> None:
        self.name = order.name
        threads = str(order.threads)
        known = {"PYTHONPATH": str(_ROOT), "OMP_NUM_THREADS": threads}
        self._process = subprocess.Popen(
            [order.python, "-m", "common.engine.bench.peers.peer_side"],
            env={**os.environ, **known, **order.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        ready = self._ask(
            {
                "adapter": order.adapter,
                "model": str(order.model),
                "threads": order.threads,
                "options": dict(order.options),
            }
        )
        self.about: str = ready["about"]
        self.load_s: float = ready["load_s"]

    def run(self, case: Case, seed: int, vocab: int) -> float | None:
        """None: it cannot do that."""
        value: float | None = self._ask({"case": asdict(case), "seed": seed, "vocab": vocab})[
            "value"
        ]
        return value

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def end(self) -> None:
        """Closing its input asks it to end; one that does not is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(_END_S)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.end()
            raise PeerFailed(f"{self.name} ended with {self._process.returncode}")
        reply: dict[str, Any] = json.loads(line)
        return reply
