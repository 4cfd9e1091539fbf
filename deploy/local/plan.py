"""From a topology to processes: which modules run, in which order, with which environment.

Pure: what the machine contributes (folders, free ports, cores, the caller's own TWINFLEET_
variables) comes in as a Site. Precedence of a setting, weakest first: the default here, the
caller's environment, the topology's own `settings`, what the plan must decide itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Literal, get_args

from deploy.local.errors import DeployError
from deploy.local.topology import RolePlan, SettingValue, Topology

MIB = 1 << 20
RoleName = Literal["router", "kvstore", "prefill", "decode", "gateway"]
ROLES: tuple[RoleName, ...] = get_args(RoleName)
WORKERS: tuple[RoleName, ...] = ("prefill", "decode")
DEFAULT_BLOCK_TOKENS = 32
DEFAULT_POOL_BYTES = 512 * MIB
DEFAULT_ARENA_BYTES = 512 * MIB
PROGRAM_BYTES = 80 * MIB
"""Of a process in which no model runs."""


class Stage(IntEnum):
    """Processes of one stage start together; the next waits until all of it is ready."""

    CONTROL = 0
    WORKERS = 1
    GATEWAYS = 2


STAGES: Mapping[RoleName, Stage] = {
    "router": Stage.CONTROL,
    "kvstore": Stage.CONTROL,
    "prefill": Stage.WORKERS,
    "decode": Stage.WORKERS,
    "gateway": Stage.GATEWAYS,
}
DRAIN_ORDER: tuple[tuple[RoleName, ...], ...] = (("gateway",), WORKERS, ("kvstore",), ("router",))
"""Who feeds others stops first, so that what is under way can end."""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    name: str
    role: RoleName
    module: str
    admin_port: int
    env: Mapping[str, str]
    """What this process gets on top of the supervisor's environment."""


@dataclass(frozen=True, slots=True)
class Site:
    """What the machine gives to a plan."""

    sockets: Path
    """Short folder for sockets."""
    cache: Path
    http_port: int
    free_ports: tuple[int, ...]
    cores: int
    environment: Mapping[str, str]
    """The caller's TWINFLEET_ variables."""


def ports_needed(topology: Topology) -> int:
    """Loopback ports a plan takes from its site: an admin port each, with tcp a second one."""
    processes = sum(_role(topology, role).count for role in ROLES)
    return processes * (2 if topology.transport == "tcp" else 1)


def plan(topology: Topology, site: Site, model: str) -> tuple[ProcessSpec, ...]:
    """In starting order. `model` is the path of the checkpoint, or '' for the mock engine."""
    return tuple(_Planner(topology, site, model).specs())


class _Planner:
    def __init__(self, topology: Topology, site: Site, model: str) -> None:
        if len(site.free_ports) < ports_needed(topology):
            raise DeployError(f"a plan for {topology.name} needs {ports_needed(topology)} ports")
        self._topology = topology
        self._site = site
        self._model = model
        self._ports = iter(site.free_ports)
        self._router_address = self._address("router-0")

    def specs(self) -> Iterator[ProcessSpec]:
        for role in ROLES:
            role_plan = _role(self._topology, role)
            for index in range(role_plan.count):
                yield self._spec(role, role_plan, index)

    def _spec(self, role: RoleName, role_plan: RolePlan, index: int) -> ProcessSpec:
        name = f"{role}-{index}"
        admin_port = next(self._ports)
        decided = self._identity(name, role, admin_port) | self._decided(role, role_plan, index)
        settings = {
            **self._defaults(role),
            **{_variable(key): value for key, value in self._inherited().items()},
            **{_variable(key): _text(value) for key, value in role_plan.settings.items()},
            **{_variable(key): value for key, value in decided.items()},
        }
        return ProcessSpec(name, role, f"services.{role}", admin_port, settings)

    def _identity(self, name: str, role: RoleName, admin_port: int) -> dict[str, str]:
        is_router = role == "router"
        return {
            "name": name,
            "run_dir": str(self._site.sockets),
            "admin_port": str(admin_port),
            "host": name if self._topology.transport == "tcp" else "",
            "router_address": "" if is_router else self._router_address,
            "bind_address": self._router_address if is_router else self._address(name),
        }

    def _decided(self, role: RoleName, role_plan: RolePlan, index: int) -> dict[str, str]:
        model = {
            "model": self._model,
            "cache": str(self._site.cache),
            "engine": self._topology.engine,
        }
        match role:
            case "router":
                return {"policy": self._topology.policy} if self._topology.policy else {}
            case "kvstore":
                return {}
            case "prefill" | "decode":
                return model | {"threads": str(role_plan.threads or self._share())}
            case "gateway":
                port = str(self._site.http_port + index)
                return model | {"http_port": port}

    def _defaults(self, role: RoleName) -> dict[str, str]:
        match role:
            case "prefill" | "decode":
                return {
                    _variable("block_tokens"): str(DEFAULT_BLOCK_TOKENS),
                    _variable("kv_pool_bytes"): str(DEFAULT_POOL_BYTES),
                }
            case "kvstore":
                return {_variable("arena_bytes"): str(DEFAULT_ARENA_BYTES)}
            case "gateway":
                return {_variable("http_host"): "127.0.0.1"}
            case "router":
                return {}

    def _inherited(self) -> dict[str, str]:
        """What the caller exported, except what is the supervisor's to decide."""
        prefix = _variable("")
        return {
            variable.removeprefix(prefix).lower(): value
            for variable, value in self._site.environment.items()
            if variable.startswith(prefix)
        }

    def _share(self) -> int:
        workers = self._topology.prefill.count + self._topology.decode.count
        return max(1, self._site.cores // workers)

    def _address(self, name: str) -> str:
        if self._topology.transport == "tcp":
            return f"tcp://127.0.0.1:{next(self._ports)}"
        return f"ipc://{self._site.sockets}/{name}"


def memory_needed(specs: tuple[ProcessSpec, ...], programs: Mapping[str, int]) -> int:
    """Bytes of the pools and arenas, which are touched at the start, and of the programs.
    `programs`: what a process takes that is more than PROGRAM_BYTES, by its name."""
    total = 0
    for spec in specs:
        total += programs.get(spec.name, PROGRAM_BYTES)
        match spec.role:
            case "prefill" | "decode":
                total += _bytes(spec, "kv_pool_bytes")
            case "kvstore":
                total += _bytes(spec, "arena_bytes")
            case "router" | "gateway":
                pass
    return total


def _bytes(spec: ProcessSpec, field: str) -> int:
    text = spec.env[_variable(field)]
    if not text.isdecimal():
        raise DeployError(f"{_variable(field)}={text!r} for {spec.name}: a number of bytes, please")
    return int(text)


def _role(topology: Topology, role: RoleName) -> RolePlan:
    match role:
        case "router":
            return topology.router
        case "kvstore":
            return topology.kvstore
        case "prefill":
            return topology.prefill
        case "decode":
            return topology.decode
        case "gateway":
            return topology.gateway


def _variable(field: str) -> str:
    return f"TWINFLEET_{field.upper()}"


def _text(value: SettingValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
