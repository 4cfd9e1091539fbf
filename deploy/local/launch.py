"""Starting a supervisor and waiting until its cluster serves; stopping it again."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deploy.local.errors import DeployError
from deploy.local.folders import Folders
from deploy.local.identity import Identity, identify, is_alive, send
from deploy.local.lock import RunLock, lock_holder, take_lock
from deploy.local.log_lines import tail
from deploy.local.run_plan import RunPlan, write_run_plan
from deploy.local.state import ClusterState, Phase, read_state
from deploy.local.sweep import sweep

POLL_S = 0.1
STOP_LIMIT_S = 75.0
"""Four groups are drained one after the other, 15 s each at most."""
TAIL_LINES = 25

Say = Callable[[str], None]


def take_run_folder(folders: Folders, say: Say) -> RunLock:
    """The lock on a run folder, and the folder without what a killed supervisor may have left.
    DeployError: a cluster runs there."""
    folders.create()
    lock = take_lock(folders.lock)
    if lock is None:
        state = read_state(folders.state)
        where = f" and serves {state.url} (topology {state.topology})" if state else ""
        raise DeployError(f"already running{where}. Stop it first:  make down")
    for name in sweep(folders):
        say(f"Killed {name}, left by a supervisor that was killed")
    folders.create()
    return lock


def launch(folders: Folders, lock: RunLock, plan: RunPlan, say: Say) -> ClusterState:
    """Detached, but waited for. Whatever goes wrong, nothing is left running; the error shows the
    end of the log that says why. The lock passes to the supervisor."""
    write_run_plan(folders.plan, plan)
    supervisor = _spawn_supervisor(folders, lock)
    lock.release()
    with _noted_interrupt() as interrupted:
        state = _until_ready(folders, supervisor, say, interrupted)
        if state is None:
            say("Interrupted: stopping what was started")
            shut_down(folders)
            raise KeyboardInterrupt
    return state


@contextmanager
def _noted_interrupt() -> Iterator[threading.Event]:
    """Set by Ctrl-C instead of an exception at any line: one that comes while a file is being
    parsed may be lost in the parser."""
    noted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda number, frame: noted.set())
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


def _spawn_supervisor(folders: Folders, lock: RunLock) -> Identity:
    """In a session of its own, so that it survives the terminal. Not a subprocess.Popen, which
    would want to be waited for: it outlives us."""
    log = str(folders.log("supervisor"))
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    os.set_inheritable(lock.fd, True)  # noqa: FBT003
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "deploy.local.supervisor", str(folders.root)],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    supervisor = identify(pid)
    if supervisor is None:
        raise DeployError(f"the supervisor ended at once: see {log}")
    lock.name(supervisor)
    return supervisor


def _until_ready(
    folders: Folders, supervisor: Identity, say: Say, interrupted: threading.Event
) -> ClusterState | None:
    """None: interrupted."""
    shown: set[str] = set()
    while is_alive(supervisor):
        if interrupted.is_set():
            return None
        state = read_state(folders.state)
        if state is not None and state.supervisor == supervisor:
            for process in state.processes:
                if process.ready and process.name not in shown:
                    shown.add(process.name)
                    say(f"  {process.name} is ready")
            if state.phase is Phase.READY:
                return state
        time.sleep(POLL_S)
    state = read_state(folders.state)
    name = (state.failed_process if state else "") or "supervisor"
    reason = (state.error if state else "") or "the supervisor ended before the cluster was ready"
    lines = folders.log(name).read_text(errors="replace").splitlines()
    raise DeployError(
        f"{reason}. Everything was stopped again.\n"
        f"The end of {folders.log(name)}:\n{tail(lines, TAIL_LINES, name)}"
    )


def shut_down(folders: Folders, limit_s: float = STOP_LIMIT_S) -> bool:
    """Stop what runs in this folder and remove what it left. False: nothing ran."""
    told: set[Identity] = set()
    limit = time.monotonic() + limit_s
    while (holder := lock_holder(folders.lock)) is not None or any(map(is_alive, told)):
        if holder is not None and holder not in told:
            # Twice when `up` had the lock at first: it passes it to the supervisor it started.
            told.add(holder)
            send(holder, signal.SIGTERM)
        if time.monotonic() > limit:
            for process in told:
                send(process, signal.SIGKILL)
        time.sleep(POLL_S)
    if folders.root.is_dir():
        lock = take_run_folder(folders, lambda text: None)
        sweep(folders)
        lock.release()
    return bool(told)
