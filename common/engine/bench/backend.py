"""Which runners can be measured, and what they may tell about themselves.

A table of strings, so that a native runner is measured without torch in the process. What a runner
offers beside the `Runner` interface is optional, and asked for by protocol.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from common.engine.runner import Runner


@dataclass(frozen=True, slots=True)
class Backend:
    runner: str
    """`module:class`, with `load(path, cache, settings)`."""
    settings: str
    """`module:class`, with block_tokens, threads and arithmetic."""
    weight_bytes: dict[str, float]
    """Arithmetic -> bytes of a weight where the runner does not say; the first is the default."""
    peak: str
    """`module:function` of a thread count: its operations a second at best."""


BACKENDS = {
    "torch": Backend(
        runner="common.engine.torch_runner:TorchRunner",
        settings="common.engine.runner_settings:RunnerSettings",
        weight_bytes={"fp32": 4.0},
        peak="common.engine.bench.torch_peak:peak_flops",
    ),
    "native": Backend(
        runner="common.engine.native_runner:NativeRunner",
        settings="common.engine.runner_settings:RunnerSettings",
        weight_bytes={"bf16": 2.0, "int8": 1.0},
        peak="common.kernels.library:peak_flops",
    ),
}


@runtime_checkable
class Weighed(Protocol):
    @property
    def weight_bytes(self) -> int:
        """Of the matrices that one step reads, as stored; the head included."""


@runtime_checkable
class Leveled(Protocol):
    @property
    def level(self) -> str:
        """Which instructions of the CPU it uses."""


@runtime_checkable
class Counted(Protocol):
    def counters(self) -> dict[str, float]:
        """Seconds spent so far, by phase of a step."""


@dataclass(frozen=True, slots=True)
class RunnerChoice:
    engine: str
    arithmetic: str
    threads: int
    model: Path
    cache: Path
    block_tokens: int = 32

    @property
    def backend(self) -> Backend:
        return BACKENDS[self.engine]


def load_runner(choice: RunnerChoice) -> Runner:
    """Thread counts are the whole process's: one choice a process."""
    settings = _named(choice.backend.settings)(
        block_tokens=choice.block_tokens, threads=choice.threads, arithmetic=choice.arithmetic
    )
    runner: Runner = _named(choice.backend.runner).load(choice.model, choice.cache, settings)
    return runner


def peak_flops(choice: RunnerChoice) -> float:
    probe: Callable[[int], float] = _named(choice.backend.peak)
    return probe(choice.threads)


def weight_bytes(runner: Runner, choice: RunnerChoice, weights: int) -> float:
    if isinstance(runner, Weighed):
        return float(runner.weight_bytes)
    return weights * choice.backend.weight_bytes[choice.arithmetic]


def _named(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(module), name)
