"""The native kernels under AddressSanitizer and UndefinedBehaviorSanitizer, at every level.

Steps run in a process of their own (tests/support/sanitized_steps.py). The sanitizers do not see
what the matrix unit loads and stores; at the other levels vectors touch the same memory.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.kernels import build as building
from tests.support.source_tree import ROOT

FLAGS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-O1",
)
# Compiling takes a minute where nothing is kept from before and the CPU is shared.
pytestmark = pytest.mark.timeout(300)


def answer(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def runtime() -> str:
    """AddressSanitizer's, which must be in the process before anything else."""
    program = building.compiler()
    if program is None:
        pytest.skip("no C++ compiler")
    if "clang" in answer(program, "--version"):
        pytest.skip(f"{program} is not GCC, whose runtime this loads")
    found = answer(program, "-print-file-name=libasan.so").strip()
    if not Path(found).is_absolute():
        pytest.skip(f"{program} has no libasan.so to load into Python")
    return found


@pytest.fixture(scope="module")
def library(
    runtime: str, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    program, cache = building.compiler(), pytestconfig.cache
    assert program is not None
    with pytest.MonkeyPatch.context() as patch:
        kept = tmp_path_factory.mktemp("built") if cache is None else cache.mkdir("sanitized")
        patch.setattr(building, "BUILT", kept)
        built = building.build(program, FLAGS)
        for old in kept.iterdir():
            if old.stem != built.stem:
                old.unlink()
        yield built


def run(library: Path, runtime: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.support.sanitized_steps", str(library), *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "LD_PRELOAD": runtime,
            # Python keeps what it has to the end.
            "ASAN_OPTIONS": "detect_leaks=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            # Each array in memory of its own, with guards around it.
            "PYTHONMALLOC": "malloc",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_level_is_clean(library: Path, runtime: str) -> None:
    done = run(library, runtime)
    assert done.returncode == 0, done.stderr[-6000:]
    assert done.stdout.split()[:1] == ["AVX2"]


def test_a_key_beyond_the_end_of_the_pool_is_found(library: Path, runtime: str) -> None:
    done = run(library, runtime, "overrun")
    assert done.returncode != 0
    assert "AddressSanitizer: heap-buffer-overflow" in done.stderr
    assert "tf_step" in done.stderr
