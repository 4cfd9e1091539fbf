"""Which process a pid means: a number alone may have been given to another since it was written."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Identity:
    pid: int
    start_ticks: int
    """Field 22 of /proc/<pid>/stat; with the pid it is unique until the next boot."""


def identify(pid: int) -> Identity | None:
    """None: no such process, or it has ended and only waits for its parent to notice."""
    fields = _fields(pid)
    return None if fields is None else Identity(pid, int(fields[19]))


def cpu_seconds(process: Identity) -> float:
    """Used so far, in user mode and in the kernel; 0 when the process is gone."""
    fields = _fields(process.pid)
    if fields is None or int(fields[19]) != process.start_ticks:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _fields(pid: int) -> list[str] | None:
    """Of /proc/<pid>/stat from the third on."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the command in parentheses and may itself hold spaces and parentheses.
    fields = text.rsplit(")", 1)[1].split()
    return None if fields[0] in ("Z", "X") else fields


def is_alive(process: Identity) -> bool:
    return identify(process.pid) == process


def send(process: Identity, number: signal.Signals) -> bool:
    """Signal exactly this process. False: it is gone."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        # Asked after the handle is taken: from here on it cannot come to mean another process.
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True
