"""A few lines of C++ over headers of the native kernels, compiled for one CPU level and loaded.

The functions under test are given C names in a source text of the test's own. What is compiled
once stays in the folder under the digest of all it was made of. Without a compiler, or without the
level's instructions, the test is skipped and says why.
"""

import ctypes
import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from common.kernels.build import FLAGS, SOURCES, UNITS, compiler

NEEDED = {
    "avx2": {"avx2", "fma", "f16c"},
    "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
    "amx": {"avx512_bf16", "avx512_vnni", "avx512vbmi", "amx_tile", "amx_bf16", "amx_int8"},
}
"""By level, as /proc/cpuinfo names them."""


@cache
def cpu_flags() -> frozenset[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())


def native_unit(folder: Path, source: str, level: str) -> ctypes.CDLL:
    """`source` is what stands inside extern "C", after its own includes."""
    program = compiler()
    if program is None:
        pytest.skip("no C++ compiler")
    missing = NEEDED[level] - cpu_flags()
    if missing:
        pytest.skip(f"this CPU has no {', '.join(sorted(missing))}")
    command = [program, *FLAGS, "-fvisibility=default", *UNITS[level][1:], f"-I{SOURCES}"]
    name = f"{level}-{_digest(source, command)}"
    text, library = folder / f"{name}.cpp", folder / f"{name}.so"
    if not library.exists():
        text.write_text(source)
        made = library.with_suffix(f".{os.getpid()}")
        done = subprocess.run(
            [*command, "-shared", "-o", str(made), str(text)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        made.rename(library)
    return ctypes.CDLL(str(library))


def _digest(source: str, command: list[str]) -> str:
    digest = hashlib.sha256(repr((source, command)).encode())
    for header in sorted(SOURCES.glob("*.h")):
        digest.update(header.name.encode() + b"\0" + header.read_bytes())
    return digest.hexdigest()[:16]
