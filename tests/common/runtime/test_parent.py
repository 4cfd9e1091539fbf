import subprocess
import sys

import pytest

from tests.support.processes import until

CHILD = """
import os, sys, time
from common.runtime.parent import die_with_parent
print(die_with_parent(int(sys.argv[1]) or os.getppid()), os.getpid(), flush=True)
time.sleep(60)
"""
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]])
time.sleep(60)
"""


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def start(parent_pid: int) -> tuple["subprocess.Popen[str]", bool, int]:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD, str(parent_pid)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    theirs, pid = parent.stdout.readline().split()
    return parent, theirs == "True", int(pid)


@pytest.mark.cluster
def test_the_child_dies_when_its_parent_is_killed() -> None:
    parent, is_theirs, child = start(0)
    with parent:
        assert is_theirs
        assert alive(child)
        parent.kill()
    until(lambda: not alive(child), limit_s=2)


@pytest.mark.cluster
def test_somebody_elses_pid_is_told_from_the_parents() -> None:
    parent, is_theirs, _ = start(1)
    with parent:
        assert not is_theirs
        parent.kill()
