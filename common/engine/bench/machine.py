"""On what it was measured: processor, memory, system, and how busy they were."""

import os
import platform
import re
from pathlib import Path

_FEATURES = (
    "avx2",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
    "amx_bf16",
    "amx_int8",
)


def machine(cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, object]:
    """Without `cpuinfo`, what the standard library knows."""
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*:\s*(.+)$", text, re.MULTILINE)
    known = set(flags[1].split()) if flags else set[str]()
    return {
        "processor": name[1] if name else platform.processor(),
        "features": [feature for feature in _FEATURES if feature in known],
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def load_average() -> float:
    """Of the last minute."""
    return os.getloadavg()[0]
