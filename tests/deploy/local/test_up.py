import io
import socket
from pathlib import Path

import pytest
from rich.console import Console

from common.kernels.library import Level
from deploy.local import machine, model, up
from deploy.local.errors import DeployError
from deploy.local.folders import Folders
from deploy.local.lock import lock_holder
from deploy.local.plan import ProcessSpec, Site
from deploy.local.ports import free_ports
from deploy.local.topology import Topology
from deploy.local.up import UpOrder, bring_up, load_topology, summary
from tests.support.clusters import fake_plan
from tests.support.tiny_models import tiny_llama

MOCK = "mock-4p4d"


def order(folders: Folders, port: int, topology: str = MOCK, model: str = "") -> UpOrder:
    return UpOrder(topology, model, port, folders.root / "cache", start_limit_s=20.0)


def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def test_a_topology_can_be_a_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('name = "mine"')
    assert load_topology(str(tmp_path / "mine.toml")).name == "mine"


def test_a_busy_port_is_refused_before_anything_starts_and_the_lock_is_free_again(
    folders: Folders,
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(DeployError, match=f"PORT={port + 1}"):
            bring_up(folders, order(folders, port), console())
    assert lock_holder(folders.lock) is None
    assert not folders.state.exists()


def test_a_machine_with_neither_native_kernels_nor_torch_is_told_so(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_llama(folders.root / "tiny", 1)
    monkeypatch.setattr(up, "best_level", lambda: Level.NONE)
    monkeypatch.setattr(model, "has_torch", lambda: False)
    with pytest.raises(DeployError, match="torch is not installed"):
        bring_up(folders, order(folders, free_ports(1)[0], "1p1d", str(path)), console())
    assert lock_holder(folders.lock) is None


def test_a_machine_too_small_is_told_so(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_memory", lambda: 1 << 20)
    with pytest.raises(DeployError, match="GiB of memory"):
        bring_up(folders, order(folders, free_ports(1)[0]), console())
    assert lock_holder(folders.lock) is None


def test_the_summary_has_a_request_to_paste(tmp_path: Path) -> None:
    text = summary("http://127.0.0.1:8000", "tiny", Folders(tmp_path))
    assert "curl -N http://127.0.0.1:8000/v1/chat/completions" in text
    assert '"model": "tiny"' in text
    assert "make demo" in text
    assert "make down" in text
    assert str(tmp_path / "logs") in text


@pytest.mark.cluster
def test_up_starts_the_plan_and_ends_with_the_summary(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fakes(topology: Topology, site: Site, model: str) -> tuple[ProcessSpec, ...]:
        assert topology.engine == "mock"
        assert model == ""
        return fake_plan(folders, roles=("router", "gateway")).processes

    monkeypatch.setattr(up, "plan", fakes)
    shown = console()
    bring_up(folders, order(folders, free_ports(1)[0]), shown)
    assert isinstance(shown.file, io.StringIO)
    text = shown.file.getvalue()
    assert "router-0 is ready" in text
    assert "gateway-0 is ready" in text
    assert "curl -N" in text
    assert lock_holder(folders.lock) is not None
