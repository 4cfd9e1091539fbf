"""What this machine has: memory, disk, cores, torch."""

import importlib.util
import os
import shutil
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def available_memory(proc: Path = Path("/proc"), cgroup: Path = _CGROUP) -> int:
    """Bytes that can be used without swapping, within the container's limit if there is one."""
    lines = (proc / "meminfo").read_text().splitlines()
    fields = {line.split(":")[0]: line.split()[1] for line in lines}
    available = int(fields["MemAvailable"]) * 1024
    limit = _number(cgroup / "memory.max")
    if limit is not None:
        used = _number(cgroup / "memory.current") or 0
        available = min(available, limit - used)
    return available


def _number(path: Path) -> int | None:
    """None: there is no such file, or it says `max`."""
    try:
        text = path.read_text().strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdecimal() else None


def free_disk(folder: Path) -> int:
    """Bytes free where `folder` is or would be made."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def cores() -> int:
    """Those this process may use, which in a container are fewer than the machine's."""
    return len(os.sched_getaffinity(0))


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None
