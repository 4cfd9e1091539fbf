import socket
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.folders import Folders
from deploy.local.identity import Identity, identify
from deploy.local.state import ClusterState, Phase, ProcessState, write_state
from deploy.local.sweep import set_logs_aside, sweep


def leave_state(folders: Folders, left: Identity) -> None:
    process = ProcessState(
        name="decode-0", role="decode", admin_port=9001, identity=left, restarts=0, ready=True
    )
    state = ClusterState(
        supervisor=Identity(1, 1),
        topology="x",
        url="",
        phase=Phase.READY,
        processes=(process,),
    )
    write_state(folders.state, state)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    result = Folders(tmp_path / "run")
    result.create()
    return result


def test_a_leftover_is_killed_and_its_socket_removed(folders: Folders) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folders.sockets / "decode-0"))
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        left = identify(child.pid)
        assert left is not None
        leave_state(folders, left)
        assert sweep(folders) == ["decode-0"]
        assert child.wait(5) == -9
    assert not folders.sockets.exists()
    assert not folders.state.exists()


def test_a_stranger_with_a_leftovers_pid_is_left_alone(folders: Folders) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        stranger = identify(child.pid)
        assert stranger is not None
        leave_state(folders, Identity(stranger.pid, stranger.start_ticks - 100))
        assert sweep(folders) == []
        assert child.poll() is None
        child.kill()


def test_sweeping_nothing_is_fine(folders: Folders) -> None:
    assert sweep(folders) == []
    assert sweep(folders) == []


def test_one_generation_of_logs_is_kept(folders: Folders) -> None:
    for text in ("first", "second"):
        folders.log("decode-0").write_text(text)
        set_logs_aside(folders)
    assert [path.name for path in folders.logs.iterdir()] == ["decode-0.log.1"]
    assert (folders.logs / "decode-0.log.1").read_text() == "second"
    folders.remove_sockets()
