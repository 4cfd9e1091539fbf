"""`up`: from a topology's name to a cluster that has answered one request."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from common.checkpoint.default_model import model_name
from common.kernels.library import best_level
from common.runtime.settings import ENV_PREFIX
from deploy.local import machine, preflight
from deploy.local.errors import DeployError
from deploy.local.folders import Folders
from deploy.local.launch import launch, take_run_folder
from deploy.local.lock import RunLock
from deploy.local.model import fetched, make_ready
from deploy.local.plan import ProcessSpec, Site, memory_needed, plan, ports_needed
from deploy.local.ports import free_ports, is_free
from deploy.local.run_plan import RunPlan
from deploy.local.sweep import set_logs_aside, sweep
from deploy.local.topology import Topology, parse_topology

TOPOLOGIES = Path(__file__).parent / "topologies"
LOG_BYTES = 64 * preflight.MIB


@dataclass(frozen=True, slots=True)
class UpOrder:
    """What the person asked for."""

    topology: str
    """A name in topologies/, or the path of a TOML file."""
    model: str
    """'' is the default model."""
    http_port: int
    cache: Path
    start_limit_s: float


def load_topology(name: str) -> Topology:
    path = Path(name) if name.endswith(".toml") else TOPOLOGIES / f"{name}.toml"
    try:
        return parse_topology(path.read_text(), str(path))
    except FileNotFoundError:
        known = ", ".join(sorted(file.stem for file in TOPOLOGIES.glob("*.toml")))
        raise DeployError(f"no topology {name!r}; there are: {known}") from None


def bring_up(folders: Folders, order: UpOrder, console: Console) -> None:
    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    topology = load_topology(order.topology)
    lock = take_run_folder(folders, say)
    try:
        set_logs_aside(folders)
        _check_machine(folders, topology, order)
        path = fetched(order.model, order.cache, say) if topology.engine != "mock" else None
        specs = _plan(folders, topology, order, path)
        needed = _memory_needed(specs, path, order.cache, say)
        preflight.check_memory(needed, machine.available_memory())
    except BaseException:
        _let_go(folders, lock)
        raise
    url = f"http://127.0.0.1:{order.http_port}"
    say(f"Starting {len(specs)} processes ({topology.name})")
    launch(folders, lock, RunPlan(
        topology=topology.name, url=url, start_limit_s=order.start_limit_s, processes=specs
    ), say)  # fmt: skip
    say(summary(url, model_name(path) if path else "mock", folders))


def _let_go(folders: Folders, lock: RunLock) -> None:
    sweep(folders)
    lock.release()


def _check_machine(folders: Folders, topology: Topology, order: UpOrder) -> None:
    for port in range(order.http_port, order.http_port + topology.gateway.count):
        preflight.check_port(port, free=is_free(port))
    preflight.check_disk(folders.root, LOG_BYTES, machine.free_disk(folders.root), "the run folder")


def _plan(
    folders: Folders, topology: Topology, order: UpOrder, path: Path | None
) -> tuple[ProcessSpec, ...]:
    site = Site(
        sockets=folders.sockets,
        cache=order.cache,
        http_port=order.http_port,
        free_ports=free_ports(ports_needed(topology)),
        cores=machine.cores(),
        environment=_twinfleet(os.environ),
    )
    return plan(topology, site, str(path) if path else "")


def _memory_needed(
    specs: tuple[ProcessSpec, ...], path: Path | None, cache: Path, say: Callable[[str], None]
) -> int:
    """Makes the model ready. `path`: None without one."""
    if path is None:
        return memory_needed(specs, {})
    model = make_ready(path, cache, specs, best_level(), say)
    return memory_needed(specs, model.worker_bytes) + model.mapped_bytes


def _twinfleet(environment: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key.startswith(ENV_PREFIX)}


def summary(url: str, model: str, folders: Folders) -> str:
    body = (
        f'{{"model": "{model}", "stream": true, '
        '"messages": [{"role": "user", "content": "Why is the sky blue?"}]}'
    )
    return (
        f"\nReady: {url}/v1  (model {model})\n\n"
        f"curl -N {url}/v1/chat/completions -H 'content-type: application/json' \\\n"
        f"  -d '{body}'\n\n"
        "make demo    stream an answer here\n"
        "make status  what every process does\n"
        f"make logs    from {folders.logs}\n"
        "make down    stop everything\n"
    )
