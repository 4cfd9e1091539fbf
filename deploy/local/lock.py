"""One cluster a run folder: an flock that the kernel frees when its last holder dies.

`up` takes it and hands the open descriptor on to the supervisor, so there is no moment in which it
is free. The file holds the pid of whoever has it, for `down` to find.
"""

import fcntl
import os
import time
from pathlib import Path

from deploy.local.identity import Identity, identify

_TRIES = 20
_TRY_AGAIN_S = 0.01


class RunLock:
    def __init__(self, fd: int) -> None:
        self.fd = fd

    def name(self, holder: Identity) -> None:
        """Write into the file who has the lock."""
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, f"{holder.pid} {holder.start_ticks}\n".encode(), 0)

    def release(self) -> None:
        os.close(self.fd)


def take_lock(path: Path) -> RunLock | None:
    """None: somebody has it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Perhaps it is only looked at, by lock_holder.
            time.sleep(_TRY_AGAIN_S)
        else:
            me = identify(os.getpid())
            assert me is not None
            lock = RunLock(fd)
            lock.name(me)
            return lock
    os.close(fd)
    return None


def lock_holder(path: Path) -> Identity | None:
    """Who holds the lock; None when it is free."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        for _ in range(_TRIES):
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                # The file is empty for a moment while the holder writes its identity.
                if len(fields := os.pread(fd, 64, 0).split()) == 2:
                    return Identity(int(fields[0]), int(fields[1]))
                time.sleep(_TRY_AGAIN_S)
            else:
                return None
    finally:
        os.close(fd)
    return None
