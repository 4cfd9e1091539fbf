"""Builds the native kernels with the machine's own C++ compiler: `python -m common.kernels.build`.

The result's name is a digest of the sources and flags, so it is built once, and a stale one is
never loaded. Without a compiler nothing is built and nothing fails: workers compute with torch.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common.checkpoint.file_lock import file_lock

SOURCES = Path(__file__).parent / "native"
BUILT = Path(__file__).parent / "built"
FLAGS = (
    "-std=c++20",
    "-O3",
    "-g1",
    "-fPIC",
    "-fvisibility=hidden",
    "-pthread",
    # Every rounding is the source's: nothing is fused behind its back.
    "-ffp-contract=off",
    "-fno-math-errno",
    "-Wall",
    "-Wextra",
    # GCC 12 warns of its own intrinsics.
    "-Wno-uninitialized",
    "-Wno-maybe-uninitialized",
)
_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl")
_TILES = ("-mamx-tile", "-mamx-bf16", "-mamx-int8")
_AMX = (*_AVX512, "-mavx512vnni", "-mavx512vbmi", "-mavx512bf16", *_TILES)
UNITS: dict[str, tuple[str, ...]] = {
    # The first object's copy of an inline function is the one that is linked, so those that run
    # everywhere come first.
    "abi": ("abi.cpp",),
    "avx2": ("level.cpp", "-DTF_LEVEL=avx2", *_AVX2),
    "avx512": ("level.cpp", "-DTF_LEVEL=avx512", *_AVX512),
    "amx": ("level.cpp", "-DTF_LEVEL=amx", *_AMX),
}
"""Object -> source and its own flags, in the order they are linked."""


class BuildFailed(Exception):
    """The compiler's own words."""


def built_library(extra: tuple[str, ...] = ()) -> Path:
    """Where the library of these sources and flags is, once it is built."""
    digest = hashlib.sha256(repr((FLAGS, extra, UNITS)).encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return BUILT / f"{digest.hexdigest()[:16]}.so"


def compiler() -> str | None:
    """`CXX`, or the first that is there."""
    named = os.environ.get("CXX")
    return shutil.which(named) if named else shutil.which("g++") or shutil.which("clang++")


def build(program: str, extra: tuple[str, ...] = ()) -> Path:
    """Does nothing when it is built already. `extra` flags make another library."""
    place = built_library(extra)
    if place.exists():
        return place
    with file_lock(place.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=BUILT) as folder:
        if not place.exists():
            objects = [str(Path(folder, f"{name}.o")) for name in UNITS]
            with ThreadPoolExecutor() as pool:
                for _ in pool.map(
                    lambda unit, out: _compile(program, *extra, *unit, "-c", "-o", out),
                    UNITS.values(),
                    objects,
                ):
                    pass
            shared = str(Path(folder, "kernels.so"))
            _compile(program, *extra, *objects, "-shared", "-o", shared)
            Path(shared).rename(place)
    return place


def _compile(program: str, *arguments: str) -> None:
    done = subprocess.run(
        [program, *FLAGS, *arguments], cwd=SOURCES, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildFailed(done.stderr.strip() or f"{program} ended with {done.returncode}")


def main() -> int:
    program = compiler()
    if program is None:
        sys.stderr.write("No C++ compiler: native kernels are not built, workers will use torch.\n")
        return 0
    try:
        build(program)
    except BuildFailed as error:
        sys.stderr.write(f"{error}\nNative kernels are not built, workers will use torch.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
