"""The supervisor as a real process over fake services."""

import os
import signal

import pytest

from deploy.local.errors import DeployError
from deploy.local.folders import Folders
from deploy.local.identity import is_alive
from deploy.local.launch import shut_down
from tests.support.clusters import fake_plan, identities, notes, process, start
from tests.support.processes import answer, until

pytestmark = pytest.mark.cluster


def test_stages_start_one_after_the_other_and_all_are_ready(folders: Folders) -> None:
    plan = fake_plan(folders, env={"": {"FAKE_READY_S": "0.3"}})
    state = start(folders, plan)
    assert all(process.ready for process in state.processes)
    started = [note.split()[0] for note in notes(folders)]
    assert set(started[:2]) == {"router-0", "kvstore-0"}
    assert set(started[2:4]) == {"prefill-0", "decode-0"}
    assert started[4:] == ["gateway-0"]


def test_a_stage_waits_until_the_one_before_is_ready(folders: Folders) -> None:
    """Workers that never get ready: the gateway is never started."""
    plan = fake_plan(folders, start_limit_s=5, env={"decode-0": {"FAKE_READY_S": "99"}})
    with pytest.raises(DeployError, match="decode-0 was not ready within 5 s"):
        start(folders, plan)
    assert "gateway-0 start" not in notes(folders)


def test_down_drains_in_the_order_of_the_work_and_leaves_nothing(folders: Folders) -> None:
    state = start(folders, fake_plan(folders, env={"gateway-0": {"FAKE_DRAIN_S": "0.3"}}))
    assert shut_down(folders)
    ends = [note for note in notes(folders) if not note.endswith("start")]
    assert ends[:2] == ["gateway-0 drain", "gateway-0 stop"]
    assert {note.split()[0] for note in ends[2:6]} == {"prefill-0", "decode-0"}
    assert ends[6:] == ["kvstore-0 drain", "kvstore-0 stop", "router-0 drain", "router-0 stop"]
    assert not any(is_alive(identity) for identity in [state.supervisor, *identities(state)])
    assert not folders.sockets.exists()
    assert not folders.state.exists()
    assert not folders.plan.exists()
    assert not shut_down(folders)


def test_a_killed_process_comes_back_under_its_name(folders: Folders) -> None:
    state = start(folders, fake_plan(folders, roles=("router", "decode")))
    before = process(folders, "decode-0").identity
    assert before is not None
    os.kill(before.pid, signal.SIGKILL)
    until(lambda: process(folders, "decode-0").restarts == 1)
    until(lambda: process(folders, "decode-0").ready)
    after = process(folders, "decode-0")
    assert after.identity != before
    assert answer(after.admin_port, "/ready")[0] == 200
    assert process(folders, "router-0").identity in identities(state)


def test_a_process_that_keeps_dying_is_started_ever_more_slowly(folders: Folders) -> None:
    start(folders, fake_plan(folders, roles=("router", "decode")))

    for wait_s in (0.2, 0.4, 0.8):
        until(lambda: process(folders, "decode-0").ready)
        identity = process(folders, "decode-0").identity
        assert identity is not None
        os.kill(identity.pid, signal.SIGKILL)
        died = f'"restart_in_s": {wait_s}'
        until(lambda died=died: died in folders.log("supervisor").read_text())


def test_a_killed_supervisor_takes_its_processes_with_it(folders: Folders) -> None:
    state = start(folders, fake_plan(folders))
    os.kill(state.supervisor.pid, signal.SIGKILL)
    until(lambda: not any(is_alive(identity) for identity in identities(state)), limit_s=2)
