"""Starting and stopping a real supervisor over fake services."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from deploy.local.errors import DeployError
from deploy.local.folders import Folders
from deploy.local.identity import is_alive
from deploy.local.launch import shut_down, take_run_folder
from deploy.local.state import ClusterState, read_state
from tests.support.clusters import fake_plan, identities, process, start
from tests.support.processes import until

pytestmark = pytest.mark.cluster


def test_a_process_that_cannot_start_fails_the_start_with_the_end_of_its_log(
    folders: Folders,
) -> None:
    plan = fake_plan(folders, env={"": {"FAKE_CRASH": "decode-0"}})
    with pytest.raises(DeployError, match=r"(?s)decode-0 died 3 times.*told to crash in start"):
        start(folders, plan)
    state = read_state(folders.state)
    assert state is not None
    assert not any(process.identity for process in state.processes)
    assert not folders.sockets.exists()


def test_after_a_killed_supervisor_a_new_start_succeeds(folders: Folders) -> None:
    first = start(folders, fake_plan(folders, roles=("router",)))
    os.kill(first.supervisor.pid, signal.SIGKILL)
    until(lambda: not any(is_alive(identity) for identity in identities(first)), limit_s=2)
    second = start(folders, fake_plan(folders, roles=("router",)))
    assert second.supervisor != first.supervisor
    assert process(folders, "router-0").ready


def test_a_second_start_is_refused_and_says_where_the_first_serves(folders: Folders) -> None:
    start(folders, fake_plan(folders, roles=("router",)))
    with pytest.raises(DeployError, match=r"already running and serves http://127.0.0.1:8000"):
        take_run_folder(folders, print)


UP = """
import sys
from pathlib import Path
from deploy.local.folders import Folders
from deploy.local.launch import launch
from deploy.local.lock import RunLock
from deploy.local.run_plan import read_run_plan
root = Path(sys.argv[1])
launch(Folders(root), RunLock(int(sys.argv[2])), read_run_plan(root / "given"), print)
"""


@pytest.fixture
def starting(folders: Folders) -> Iterator[tuple["subprocess.Popen[str]", ClusterState]]:
    """`up` in a process of its own, waiting for a worker that never gets ready."""
    plan = fake_plan(folders, env={"decode-0": {"FAKE_READY_S": "99"}})
    lock = take_run_folder(folders, print)
    (folders.root / "given").write_text(plan.model_dump_json())
    with subprocess.Popen(
        [sys.executable, "-c", UP, str(folders.root), str(lock.fd)],
        pass_fds=(lock.fd,),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as up:
        lock.release()
        until(lambda: (found := read_state(folders.state)) is not None and len(found.processes) > 3)
        state = read_state(folders.state)
        assert state is not None
        yield up, state
        up.kill()


def test_down_during_a_start_stops_everything(
    folders: Folders, starting: tuple["subprocess.Popen[str]", ClusterState]
) -> None:
    up, state = starting
    assert shut_down(folders)
    assert "ended before the cluster was ready" in up.communicate(timeout=5)[0]
    assert not any(is_alive(one.identity) for one in state.processes if one.identity)


def test_an_interrupted_start_stops_everything(
    folders: Folders, starting: tuple["subprocess.Popen[str]", ClusterState]
) -> None:
    up, state = starting
    up.send_signal(signal.SIGINT)
    assert "Interrupted" in up.communicate(timeout=30)[0]
    assert not any(is_alive(one.identity) for one in state.processes if one.identity)
    assert not is_alive(state.supervisor)
    assert not folders.sockets.exists()
