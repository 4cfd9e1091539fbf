"""A cluster of ours: one that a side of a comparison gets for a measurement, or one that runs.

A side's cluster lies in a run folder of its own, on ports of its own, and is gone when the
measurement is, however that ended. Whatever already runs is left alone.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import urlsplit

from common.runtime.settings import ENV_PREFIX
from deploy.local.errors import DeployError
from deploy.local.folders import Folders
from deploy.local.launch import shut_down
from deploy.local.lock import lock_holder
from deploy.local.plan import ProcessSpec, Site, plan, ports_needed
from deploy.local.ports import LOOPBACK, free_ports, is_free
from deploy.local.setting_names import setting_names
from deploy.local.state import ClusterState, read_state
from deploy.local.topology import Topology
from deploy.local.up import load_topology
from loadtest.errors import LoadTestError
from loadtest.scenario import Side

KILL_AFTER_S = 10.0
_HERE = ("localhost", "127.0.0.1", "::1")
_HTTP_PORT = 80


@dataclass(frozen=True, slots=True)
class Cluster:
    url: str
    """Of its first gateway."""
    folders: Folders

    def state(self) -> ClusterState:
        """As of now: a process that died comes back with another pid. Raises LoadTestError when
        the cluster has ended."""
        state = _live_state(self.folders)
        if state is None:
            raise LoadTestError(
                f"the cluster at {self.url} has ended; see {self.folders.log('supervisor')}"
            )
        return state


def running_cluster(run_folder: Path, base_url: str) -> Cluster | None:
    """The cluster of this run folder, if it is the one that `base_url` speaks of."""
    folders = _run_folder(run_folder)
    state = _live_state(folders)
    if state is None or not _serves(state, base_url):
        return None
    return Cluster(state.url, folders)


def running_address(run_folder: Path) -> str | None:
    """Of the cluster of this run folder, if one runs."""
    state = _live_state(_run_folder(run_folder))
    return None if state is None else state.url


@asynccontextmanager
async def side_cluster(side: Side, folder: Path, model: str = "") -> AsyncIterator[Cluster]:
    """Serves from here on, and runs in `folder` until the block is left. `model`: a GGUF file or a
    Hugging Face folder; '' is the default model. Raises LoadTestError."""
    folders = _run_folder(folder)
    gateways = checked(side).gateway.count
    if lock_holder(folders.lock) is not None:
        raise LoadTestError(f"side {side.name}: a cluster runs in {folders.root} already")
    port = _http_port(gateways)
    command = _up(side, folders, model, port)
    try:
        await _run(command, os.environ | environment(side), f"side {side.name}")
        yield Cluster(f"http://{LOOPBACK}:{port}", folders)
    finally:
        # In a thread: it waits for processes to end and must not be cut off.
        await asyncio.to_thread(shut_down, folders)


def checked(side: Side) -> Topology:
    """The side's topology. Raises LoadTestError when there is none, and when one of its settings
    would reach no process."""
    try:
        topology = load_topology(side.topology)
        # Ports and folders do not matter: only who gets which setting does.
        ports = tuple(range(ports_needed(topology)))
        specs = plan(topology, Site(Path(), Path(), 0, ports, 1, environment(side)), "")
    except DeployError as error:
        raise LoadTestError(f"side {side.name}: {error}") from None
    for name, value in environment(side).items():
        problem = _problem(name, value, specs)
        if problem:
            setting = name.removeprefix(ENV_PREFIX).lower()
            raise LoadTestError(f"side {side.name}: settings.{setting}: {problem}")
    return topology


def _problem(variable: str, value: str, specs: tuple[ProcessSpec, ...]) -> str:
    """'' when the value gets to every process that knows the setting, and there is one."""
    setting, by_role = variable.removeprefix(ENV_PREFIX).lower(), setting_names()
    known = set().union(*by_role.values())
    if setting not in known:
        near = get_close_matches(setting, known, 1)
        return f"no service has it{f'; did you mean {near[0]}?' if near else ''}"
    readers = [spec for spec in specs if setting in by_role[spec.role]]
    if not readers:
        return "no process of this topology has it"
    for spec in readers:
        if spec.env[variable] != value:
            return f"the topology itself decides it: {spec.name} gets {spec.env[variable]!r}"
    return ""


def environment(side: Side) -> dict[str, str]:
    return {
        f"{ENV_PREFIX}{name.upper()}": str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in side.settings.items()
    }


def _up(side: Side, folders: Folders, model: str, port: int) -> list[str]:
    return [
        *(sys.executable, "-m", "deploy.local", "--run", str(folders.root), "up"),
        *("--topology", side.topology, "--model", model, "--port", str(port)),
    ]


async def _run(command: list[str], environment: Mapping[str, str], who: str) -> None:
    """Quietly. Raises LoadTestError with all it said when it fails; ends it when cancelled."""
    # Not through a pipe: whatever it leaves running may hold the other end, and under uvloop does.
    with tempfile.TemporaryFile() as said:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=said,
            stderr=asyncio.subprocess.STDOUT,
            # Ctrl-C in the terminal comes to us alone: who started the cluster also stops it.
            start_new_session=True,
        )
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                await _ended(process)
        if process.returncode:
            said.seek(0)
            text = said.read().decode(errors="replace").strip()
            raise LoadTestError(f"{who}: no cluster.\n{text}")


async def _ended(process: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(KILL_AFTER_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _run_folder(path: Path) -> Folders:
    return Folders(path.resolve())


def _http_port(gateways: int) -> int:
    """The first of so many free ones in a row."""
    while True:
        (port,) = free_ports(1)
        if all(is_free(port + number) for number in range(1, gateways)):
            return port


def _live_state(folders: Folders) -> ClusterState | None:
    state = read_state(folders.state)
    if state is None or lock_holder(folders.lock) != state.supervisor:
        return None
    return state


def _serves(state: ClusterState, base_url: str) -> bool:
    asked, own = urlsplit(base_url), urlsplit(state.url)
    first = own.port or _HTTP_PORT
    gateways = sum(process.role == "gateway" for process in state.processes)
    return asked.hostname in _HERE and (asked.port or _HTTP_PORT) in range(first, first + gateways)
