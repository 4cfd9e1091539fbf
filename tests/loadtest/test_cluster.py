import os
from pathlib import Path

import pytest

from deploy.local.folders import Folders
from deploy.local.identity import Identity, identify
from deploy.local.lock import take_lock
from deploy.local.state import ClusterState, Phase, ProcessState, write_state
from loadtest.cluster import Cluster, checked, running_address, running_cluster, side_cluster
from loadtest.errors import LoadTestError
from loadtest.scenario import Side

URL = "http://127.0.0.1:8100"
Settings = dict[str, bool | int | float | str]


def side(settings: Settings | None = None, topology: str = "mock-4p4d") -> Side:
    return Side(name="ours", topology=topology, settings=settings or {})


def state(supervisor: Identity, gateways: int = 1) -> ClusterState:
    processes = tuple(
        ProcessState(name=f"gateway-{number}", role="gateway", admin_port=9, identity=None,
                     restarts=0, ready=True)
        for number in range(gateways)
    )  # fmt: skip
    return ClusterState(
        supervisor=supervisor, topology="t", url=URL, phase=Phase.READY, processes=processes
    )


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    made = Folders(tmp_path)
    made.create()
    return made


def test_a_side_is_a_topology_and_settings_that_its_processes_know() -> None:
    assert checked(side()).name == "mock-4p4d"
    told: Settings = {"step_tokens": 256, "log_level": "warning", "policy": "round_robin"}
    assert checked(side(told)).decode.count == 4


def test_a_topology_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(LoadTestError, match=r"side ours: no topology 'nope'.*aggregated"):
        checked(side(topology="nope"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step_token": 256}, r"settings\.step_token: no service has it; did you mean step_tokens"),
        ({"qqqq": 1}, r"settings\.qqqq: no service has it$"),
        ({"kv_pool_bytes": 1 << 20}, r"the topology itself decides it: prefill-0 gets '16777216'"),
        ({"http_port": 80}, r"the topology itself decides it: gateway-0"),
        ({"engine": "torch"}, r"the topology itself decides it: prefill-0 gets 'mock'"),
    ],
)
def test_a_setting_that_would_change_nothing_is_an_error(settings: Settings, message: str) -> None:
    with pytest.raises(LoadTestError, match=message):
        checked(side(settings))


def test_a_setting_of_processes_that_the_topology_does_not_have_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "bare.toml"
    path.write_text('name = "bare"\nengine = "mock"\nkvstore = { count = 0 }')
    with pytest.raises(LoadTestError, match="no process of this topology has it"):
        checked(side({"arena_bytes": 1 << 20}, str(path)))


def test_a_setting_may_be_the_same_as_the_topology_says() -> None:
    assert checked(side({"kv_pool_bytes": 16777216})).name == "mock-4p4d"


async def test_a_side_does_not_touch_a_cluster_that_runs_in_its_folder(folders: Folders) -> None:
    lock = take_lock(folders.lock)
    assert lock is not None
    with pytest.raises(LoadTestError, match="a cluster runs in"):
        async with side_cluster(side(), folders.root):
            pass
    lock.release()


@pytest.mark.parametrize(
    ("url", "same"),
    [
        (URL, True),
        (URL + "/v1", True),
        ("http://localhost:8100/", True),
        ("http://localhost:8101", True),
        ("http://localhost:8102", False),
        ("http://localhost", False),
        ("http://example.com:8100", False),
    ],
)
def test_an_address_is_of_the_cluster_that_runs_when_one_of_its_gateways_has_it(
    folders: Folders, url: str, *, same: bool
) -> None:
    lock, me = take_lock(folders.lock), identify(os.getpid())
    assert lock is not None
    assert me is not None
    write_state(folders.state, state(me, gateways=2))
    found = running_cluster(folders.root, url)
    assert running_address(folders.root) == URL
    lock.release()
    assert (found is not None) == same
    if found is not None:
        assert found.url == URL


def test_a_file_left_by_a_cluster_that_is_gone_is_not_believed(folders: Folders) -> None:
    me = identify(os.getpid())
    assert me is not None
    write_state(folders.state, state(me))
    assert running_cluster(folders.root, URL) is None
    assert running_address(folders.root) is None
    with pytest.raises(LoadTestError, match="has ended"):
        Cluster(URL, folders).state()
