"""Dying with the parent: Linux kills us when the process that started us ends, however it ends."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> bool:
    """Ask the kernel for SIGKILL at the parent's death. False: `parent_pid` is not (or no longer)
    our parent, so nobody will ever stop us and we should not start."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    # Asked after the request: a parent that died in between would go unnoticed otherwise.
    return os.getppid() == parent_pid
