import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from deploy.local.identity import Identity, identify
from deploy.local.plan import RoleName
from deploy.local.state import ClusterState, Phase, ProcessState
from loadtest.errors import LoadTestError
from loadtest.faults import Recovery, aimed_at, check_faults, strike
from loadtest.scenario import Fault

BEFORE = Identity(10, 100)
AFTER = Identity(11, 200)
LIMIT_S = 5.0


def process(
    name: str = "decode-0",
    identity: Identity | None = BEFORE,
    role: RoleName = "decode",
    *,
    ready: bool = True,
) -> ProcessState:
    return ProcessState(
        name=name, role=role, admin_port=1, identity=identity, restarts=0, ready=ready
    )


def state(*processes: ProcessState) -> ClusterState:
    return ClusterState(
        supervisor=Identity(1, 1), topology="t", url="u", phase=Phase.READY, processes=processes
    )


@dataclass
class Cluster:
    """As the test says it is."""

    now: ClusterState

    def state(self) -> ClusterState:
        return self.now


def fault(
    action: Literal["kill", "pause", "drain"], name: str = "decode-0", at_s: float = 0.0,
    seconds: float = 0.0,
) -> Fault:  # fmt: skip
    return Fault(at_s=at_s, action=action, process=name, seconds=seconds)


def clock() -> Callable[[], float]:
    began = time.monotonic()
    return lambda: time.monotonic() - began


@dataclass
class Sleepers:
    children: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start(self) -> Identity:
        child = subprocess.Popen(["sleep", "60"])
        self.children.append(child)
        identity = identify(child.pid)
        assert identity is not None
        return identity


@pytest.fixture
def sleepers() -> Iterator[Sleepers]:
    made = Sleepers()
    yield made
    for child in made.children:
        child.kill()
        child.wait()


def is_stopped(identity: Identity) -> bool:
    return Path(f"/proc/{identity.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.005)


def test_a_role_is_all_its_processes_and_a_name_is_one() -> None:
    cluster = state(process("decode-0"), process("decode-1"), process("router-0", role="router"))
    assert [one.name for one in aimed_at("decode", cluster)] == ["decode-0", "decode-1"]
    assert [one.name for one in aimed_at("decode-1", cluster)] == ["decode-1"]
    assert aimed_at("decode-2", cluster) == []


def test_faults_need_a_cluster_of_ours() -> None:
    check_faults([], None)
    with pytest.raises(LoadTestError, match="cluster of ours"):
        check_faults([fault("kill")], None)


def test_faults_need_a_process_that_is_there() -> None:
    check_faults([fault("kill", "decode")], Cluster(state(process())))
    with pytest.raises(LoadTestError, match=r"no process 'decode-7' to drain.*: decode-0"):
        check_faults([fault("drain", "decode-7")], Cluster(state(process())))


def test_a_killed_process_is_back_when_its_next_life_is_ready() -> None:
    recovery = Recovery("kill", 2.0, {"decode-0": BEFORE})
    assert recovery.see(state(process()), 2.1) == []
    assert recovery.see(state(process(identity=None, ready=False)), 2.2) == []
    assert recovery.see(state(process(identity=AFTER, ready=False)), 2.5) == []
    assert recovery.see(state(process(identity=AFTER)), 3.5) == [
        "decode-0 is ready again after 1.5 s"
    ]
    assert not recovery.waiting
    assert recovery.see(state(process(identity=AFTER)), 3.6) == []


def test_of_a_drained_process_its_end_is_told_once_too() -> None:
    recovery = Recovery("drain", 0.0, {"decode-0": BEFORE})
    gone = state(process(identity=None, ready=False))
    assert recovery.see(gone, 1.0) == ["decode-0 has drained and ended after 1.0 s"]
    assert recovery.see(gone, 1.1) == []
    assert recovery.see(state(process(identity=AFTER)), 2.0) == [
        "decode-0 is ready again after 2.0 s"
    ]


def test_others_that_come_and_go_are_not_told_of() -> None:
    recovery = Recovery("kill", 0.0, {"decode-0": BEFORE})
    assert recovery.see(state(process(), process("decode-1", AFTER)), 1.0) == []


@pytest.mark.parametrize("action", ["kill", "drain"])
async def test_all_processes_of_a_role_are_hit_and_seen_back(
    sleepers: Sleepers, action: Literal["kill", "drain"]
) -> None:
    first = [process(f"decode-{number}", sleepers.start()) for number in range(2)]
    other = process("router-0", sleepers.start(), "router")
    cluster = Cluster(state(*first, other))
    async with strike([fault(action, "decode", at_s=0.05)], cluster, clock()) as marks:
        await until(lambda: all(child.poll() for child in sleepers.children[:2]))
        cluster.now = state(*(process(one.name, sleepers.start()) for one in first), other)
        await until(lambda: sum("ready again" in mark.text for mark in marks) == 2)
    assert sleepers.children[2].poll() is None
    texts = [mark.text.split(" after")[0] for mark in marks]
    assert texts[:2] == [f"{action} decode-0", f"{action} decode-1"]
    assert {"decode-0 is ready again", "decode-1 is ready again"} <= set(texts)
    assert 0.05 <= marks[0].at_s <= marks[-1].at_s


async def test_one_that_does_not_come_back_is_marked(sleepers: Sleepers) -> None:
    cluster = Cluster(state(process(identity=sleepers.start())))
    async with strike([fault("kill")], cluster, clock()) as marks:
        await until(lambda: bool(marks))
    assert [mark.text for mark in marks] == [
        "kill decode-0",
        "decode-0 was not back when the run was over",
    ]


async def test_a_pause_ends_by_itself(sleepers: Sleepers) -> None:
    identity = sleepers.start()
    cluster = Cluster(state(process(identity=identity)))
    async with strike([fault("pause", at_s=0.05, seconds=0.2)], cluster, clock()) as marks:
        await until(lambda: is_stopped(identity))
        await until(lambda: not is_stopped(identity))
    assert [mark.text for mark in marks] == ["pause decode-0", "decode-0 goes on"]
    assert marks[1].at_s >= 0.25


async def test_a_paused_process_goes_on_when_the_run_is_cancelled(sleepers: Sleepers) -> None:
    identity = sleepers.start()
    cluster = Cluster(state(process(identity=identity)))

    async def run() -> None:
        async with strike([fault("pause", seconds=60.0)], cluster, clock()):
            await asyncio.sleep(60)

    running = asyncio.create_task(run())
    await until(lambda: is_stopped(identity))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: not is_stopped(identity))


async def test_a_fault_that_the_run_was_too_short_for_is_marked() -> None:
    cluster = Cluster(state(process()))
    async with strike([fault("kill", at_s=60.0)], cluster, clock()) as marks:
        await asyncio.sleep(0)
    assert [mark.text for mark in marks] == ["over before kill decode-0 at 60 s"]


async def test_a_process_between_two_lives_is_not_hit() -> None:
    cluster = Cluster(state(process(identity=None)))
    async with strike([fault("kill")], cluster, clock()) as marks:
        await until(lambda: bool(marks))
    assert [mark.text for mark in marks] == ["decode-0 was not running, so no kill"]


async def test_a_cluster_that_ends_on_the_way_is_an_error_after_the_run(
    sleepers: Sleepers,
) -> None:
    class Ends(Cluster):
        looks = 0

        def state(self) -> ClusterState:
            self.looks += 1
            if self.looks > 2:
                raise LoadTestError("the cluster has ended")
            return self.now

    cluster = Ends(state(process(identity=sleepers.start())))

    async def run() -> None:
        async with strike([fault("kill")], cluster, clock()):
            await until(lambda: cluster.looks > 2)

    with pytest.raises(LoadTestError, match="has ended"):
        await run()


async def test_without_faults_nothing_is_needed() -> None:
    async with strike([], None, clock()) as marks:
        assert marks == []
