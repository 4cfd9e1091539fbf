"""Cleaning up after a supervisor that could not do it itself.

Called by whoever holds the run lock, so that nothing that runs is swept. A process is killed only
if pid and start time are those in the state file.
"""

import signal
import time

from deploy.local.folders import Folders
from deploy.local.identity import is_alive, send
from deploy.local.state import read_state

_GONE_LIMIT_S = 5.0


def sweep(folders: Folders) -> list[str]:
    """What was found and removed, for the person at the terminal."""
    killed = _kill_leftovers(folders)
    folders.remove_sockets()
    folders.state.unlink(missing_ok=True)
    folders.plan.unlink(missing_ok=True)
    return killed


def _kill_leftovers(folders: Folders) -> list[str]:
    state = read_state(folders.state)
    if state is None:
        return []
    leftovers = {
        process.name: process.identity
        for process in state.processes
        if process.identity is not None and send(process.identity, signal.SIGKILL)
    }
    limit = time.monotonic() + _GONE_LIMIT_S
    while any(is_alive(identity) for identity in leftovers.values()):
        if time.monotonic() > limit:
            break
        time.sleep(0.02)
    return sorted(leftovers)


def set_logs_aside(folders: Folders) -> None:
    """The logs of the cluster before stay one generation, as *.log.1."""
    for path in folders.logs.glob("*.log"):
        path.replace(path.with_name(f"{path.name}.1"))
