import os
import signal
import subprocess
import sys
import time

from deploy.local.identity import Identity, cpu_seconds, identify, is_alive, send


def sleeper() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


def test_we_are_alive_under_our_identity() -> None:
    me = identify(os.getpid())
    assert me is not None
    assert is_alive(me)


def test_a_reused_pid_is_another_process() -> None:
    me = identify(os.getpid())
    assert me is not None
    before = Identity(me.pid, me.start_ticks - 1)
    assert not is_alive(before)
    assert not send(before, signal.SIGKILL)


def test_a_signal_reaches_the_process_it_is_for() -> None:
    with sleeper() as child:
        identity = identify(child.pid)
        assert identity is not None
        assert send(identity, signal.SIGKILL)
        assert child.wait(5) == -signal.SIGKILL


def test_a_zombie_is_not_alive() -> None:
    with sleeper() as child:
        identity = identify(child.pid)
        assert identity is not None
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(identity)
        assert not send(identity, signal.SIGTERM)


def test_a_process_that_is_gone_has_no_identity() -> None:
    with sleeper() as child:
        child.kill()
    assert identify(child.pid) is None
    assert not send(Identity(child.pid, 1), signal.SIGTERM)


def test_the_time_a_process_used_is_its_own() -> None:
    me = identify(os.getpid())
    assert me is not None
    used = time.process_time()
    assert abs(cpu_seconds(me) - used) < 0.2
    assert cpu_seconds(Identity(me.pid, me.start_ticks - 1)) == 0
    assert cpu_seconds(Identity(2**22, 1)) == 0
