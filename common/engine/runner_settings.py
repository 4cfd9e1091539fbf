"""What a runner is told when it is made, whatever computes."""

from dataclasses import dataclass
from typing import Literal

CpuLevel = Literal["best", "amx", "avx512", "avx2"]


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    block_tokens: int = 32
    threads: int = 1
    """Of this process, for one operation."""
    device: str = "cpu"
    """As torch names it. The native runner computes on the CPU alone."""
    arithmetic: str = "fp32"
    """fp32 in torch; bf16 or int8 in native kernels."""
    level: CpuLevel = "best"
    """Which instructions the native kernels use; best: the highest that is there."""
