"""What a worker will compute with: the same question that it asks itself, before there is one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from common.kernels.library import Level, NativeUnavailable
from common.runtime.settings import ENV_PREFIX

TORCH_ARITHMETIC = "fp32"


@dataclass(frozen=True, slots=True)
class Backend:
    """Workers of the same one map the same file of weights."""

    engine: Literal["native", "torch"]
    arithmetic: str


TORCH = Backend("torch", TORCH_ARITHMETIC)


def backends_of(env: Mapping[str, str], best: Level) -> tuple[Backend, ...]:
    """What a worker with these variables tries on a machine of this level, in its order: a model
    whose sizes do not suit one goes to the next. NativeUnavailable: nothing is left to try."""
    engine = env[f"{ENV_PREFIX}ENGINE"]
    if engine == "torch":
        return (TORCH,)
    problem = _native_problem(env, best)
    if problem is None:
        native = Backend("native", env.get(f"{ENV_PREFIX}ARITHMETIC", "bf16"))
        return (native, TORCH) if engine == "auto" else (native,)
    if engine == "auto":
        return (TORCH,)
    raise NativeUnavailable(problem)


def _native_problem(env: Mapping[str, str], best: Level) -> str | None:
    if best is Level.NONE:
        return "native kernels are not built here (make setup builds them), or the CPU has no AVX2"
    device = env.get(f"{ENV_PREFIX}DEVICE", "cpu")
    if device != "cpu":
        return f"native kernels compute on the CPU, not on {device}"
    wanted = env.get(f"{ENV_PREFIX}CPU_LEVEL", "best").upper()
    if wanted in Level.__members__ and Level[wanted] > best:
        return f"this CPU has {best.name} at most, not {wanted}"
    return None
