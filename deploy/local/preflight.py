"""What must hold before anything is started; each refusal says what to do.

Pure: the numbers come from machine.py.
"""

from pathlib import Path

from deploy.local.errors import DeployError

GIB = 1 << 30
MIB = 1 << 20


def check_port(port: int, *, free: bool) -> None:
    if not free:
        raise DeployError(
            f"port {port} on 127.0.0.1 is taken by another program. Stop it, or choose another "
            f"port:\n  make up PORT={port + 1}\n"
            f"Who has it:  ss -ltnp 'sport = :{port}'"
        )


def check_torch(*, has_torch: bool) -> None:
    """Before a worker that needs it, because native kernels cannot run or are not wanted."""
    if not has_torch:
        raise DeployError(
            "native kernels cannot run this, and torch is not installed here. "
            "Install it:  make setup\n"
            "With a C++ compiler, make setup builds the native kernels too. "
            "Or run without a model:  make up TOPOLOGY=mock-4p4d"
        )


def check_memory(needed: int, available: int) -> None:
    if needed > available:
        raise DeployError(
            f"this topology needs about {needed / GIB:.1f} GiB of memory, and "
            f"{available / GIB:.1f} GiB are available. Take smaller pools:\n"
            f"  TWINFLEET_KV_POOL_BYTES={128 * MIB} TWINFLEET_ARENA_BYTES={128 * MIB} make up\n"
            "or fewer workers:  make up TOPOLOGY=aggregated"
        )


def check_disk(folder: Path, needed: int, free: int, what: str) -> None:
    if needed > free:
        raise DeployError(
            f"{what} needs {needed / MIB:.0f} MiB in {folder}, and {free / MIB:.0f} MiB are free. "
            "Free some, or put the cache elsewhere:  TWINFLEET_CACHE=/path make up"
        )
