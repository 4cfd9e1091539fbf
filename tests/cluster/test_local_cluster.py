"""The commands of deploy.local over the real services, with the mock engine."""

import os
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.cli import main
from deploy.local.demo import stream_answer
from deploy.local.folders import Folders
from deploy.local.identity import is_alive
from deploy.local.launch import shut_down
from deploy.local.ports import free_ports, is_free
from deploy.local.state import read_state
from tests.support.clusters import identities, process
from tests.support.processes import answer, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

TOPOLOGY = """
name = "small"
engine = "mock"
transport = "{transport}"
[prefill]
count = 1
settings = {{ kv_pool_bytes = 4194304 }}
[decode]
count = 1
settings = {{ kv_pool_bytes = 4194304 }}
[kvstore]
count = 1
settings = {{ arena_bytes = 4194304 }}
"""


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Folders]:
    result = Folders(tmp_path / "run")
    yield result
    shut_down(result, limit_s=20)


def bring_up(folders: Folders, transport: str) -> str:
    """The gateway's URL."""
    topology = folders.root.parent / "small.toml"
    topology.write_text(TOPOLOGY.format(transport=transport))
    (port,) = free_ports(1)
    run = ["--run", str(folders.root)]
    assert main([*run, "up", "--topology", str(topology), "--port", str(port)]) == 0
    return f"http://127.0.0.1:{port}"


async def tokens_of(url: str, prompt: str) -> tuple[str, int]:
    pieces: list[str] = []
    timing = await stream_answer(url, prompt, pieces.append)
    return "".join(pieces), timing.tokens


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
async def test_up_serves_and_down_leaves_nothing(folders: Folders, transport: str) -> None:
    url = bring_up(folders, transport)
    text, tokens = await tokens_of(url, "Why is the sky blue?")
    assert text
    assert tokens > 0
    state = read_state(folders.state)
    assert state is not None
    assert main(["--run", str(folders.root), "down"]) == 0
    assert not any(is_alive(identity) for identity in [state.supervisor, *identities(state)])
    assert not folders.sockets.exists()
    assert is_free(int(url.rsplit(":", 1)[1]))


async def test_every_process_killed_in_turn_comes_back_and_the_cluster_serves_again(
    folders: Folders,
) -> None:
    url = bring_up(folders, "ipc")
    gateway = process(folders, "gateway-0").admin_port
    for name in ("decode-0", "prefill-0", "kvstore-0", "router-0", "gateway-0"):
        before = process(folders, name)
        assert before.identity is not None
        os.kill(before.identity.pid, signal.SIGKILL)
        until(lambda name=name: process(folders, name).restarts == 1, limit_s=20)
        until(lambda name=name: process(folders, name).ready, limit_s=20)
        until(lambda: answer(gateway, "/ready")[0] == 200, limit_s=20)
        _, tokens = await tokens_of(url, f"After {name}")
        assert tokens > 0


async def test_sockets_are_for_their_owner_and_tcp_is_on_loopback(folders: Folders) -> None:
    bring_up(folders, "ipc")
    assert stat.S_IMODE(folders.sockets.stat().st_mode) == 0o700
    state = read_state(folders.state)
    assert state is not None
    outside = socket.gethostbyname(socket.gethostname())
    if not outside.startswith("127."):
        for one in state.processes:
            with socket.socket() as probe:
                assert probe.connect_ex((outside, one.admin_port)) != 0
