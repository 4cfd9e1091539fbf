import os
from pathlib import Path

import pytest

from tests.support.processes import FakeProcess, until

pytestmark = pytest.mark.cluster


def test_sigterm_drains_then_stops_then_exits_cleanly(tmp_path: Path) -> None:
    with FakeProcess(tmp_path) as fake:
        until(lambda: fake.status("/ready") == 200)
        fake.ask_to_stop()
        assert fake.child.wait(10) == 0
        assert fake.notes() == ["start", "drain", "stop"]
        assert [event["event"] for event in fake.events()] == [
            "process_starting",
            "process_started",
            "process_draining",
            "process_stopped",
        ]


def test_a_draining_process_is_alive_but_not_ready(tmp_path: Path) -> None:
    with FakeProcess(tmp_path, FAKE_DRAIN_S="30") as fake:
        until(lambda: fake.status("/ready") == 200)
        fake.ask_to_stop()
        until(lambda: fake.status("/ready") == 503)
        assert fake.status("/live") == 200


def test_a_second_signal_cuts_the_drain_short(tmp_path: Path) -> None:
    with FakeProcess(tmp_path, FAKE_DRAIN_S="30") as fake:
        until(lambda: fake.status("/ready") == 200)
        fake.ask_to_stop()
        until(lambda: fake.status("/ready") == 503)
        fake.ask_to_stop()
        assert fake.child.wait(5) == 0
        assert fake.notes() == ["start", "drain", "stop"]


def test_it_is_alive_and_not_ready_while_it_starts(tmp_path: Path) -> None:
    with FakeProcess(tmp_path, FAKE_START_S="30") as fake:
        until(lambda: fake.status("/live") == 200)
        assert fake.status("/ready") == 503
        fake.ask_to_stop()
        assert fake.child.wait(5) == 0
        assert fake.notes() == ["start"]


@pytest.mark.parametrize("where", ["start", "task"])
def test_an_exception_nobody_caught_ends_the_process_with_its_traceback(
    tmp_path: Path, where: str
) -> None:
    with FakeProcess(tmp_path, FAKE_CRASH=where) as fake:
        assert fake.child.wait(10) == 1
        last = fake.events()[-1]
        assert last["event"] == "process_failed"
        assert "told to crash" in str(last["exception"])


def test_a_process_whose_supervisor_is_gone_does_not_start(tmp_path: Path) -> None:
    with FakeProcess(tmp_path, TWINFLEET_SUPERVISOR_PID="1") as fake:
        assert fake.child.wait(10) == 1
        assert [event["event"] for event in fake.events()] == ["supervisor_gone"]


def test_two_lives_have_different_incarnations(tmp_path: Path) -> None:
    lives = set()
    for _ in range(2):
        with FakeProcess(tmp_path, TWINFLEET_SUPERVISOR_PID=str(os.getpid())) as fake:
            until(lambda fake=fake: fake.status("/live") == 200)
            lives.add(fake.events()[0]["incarnation"])
    assert len(lives) == 2
