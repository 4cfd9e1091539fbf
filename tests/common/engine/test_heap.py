import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
from common.engine.heap import keep_freed_memory
if sys.argv[1] == "keep" and not keep_freed_memory():
    sys.exit(3)
def touch():
    for _ in range(20):
        parts = [bytearray(1 << 20) for _ in range(24)]
touch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
touch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(mode: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, mode], capture_output=True, text=True, check=False
    )
    if done.returncode == 3:
        pytest.skip("this C library has no mallopt")
    return int(done.stdout)


def test_memory_that_was_freed_is_used_again_without_page_faults() -> None:
    assert faults("keep") < faults("default") / 10
