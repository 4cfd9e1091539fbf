"""What a topology file says: how many processes of each role, of which engine, on which transport.

One TOML file in topologies/ is one topology. Everything has a default except the name, so that a
file states what is special about it. What it does not know, or what cannot work, is an error that
names the file and the key.
"""

import tomllib
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from common.runtime.settings import EngineName
from deploy.local.errors import DeployError

RESERVED = frozenset(
    {"name", "run_dir", "admin_port", "host", "router_address", "bind_address", "supervisor_pid",
     "model", "cache", "engine", "threads", "http_host", "http_port", "policy"}
)  # fmt: skip
"""Settings that the plan gives to processes; a topology has other words for them, or none."""

SettingValue = bool | int | float | str


class RolePlan(BaseModel):
    """The processes of one role."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    count: int = Field(ge=0, le=64)
    threads: int = Field(default=0, ge=0, le=1024)
    """0: an equal share of the machine's cores."""
    settings: dict[str, SettingValue] = {}
    """Settings of the service by field name, for example kv_pool_bytes."""

    @model_validator(mode="after")
    def _settings_are_theirs(self) -> Self:
        for key in self.settings:
            if key in RESERVED:
                raise ValueError(f"settings.{key} is decided by the plan, not by a topology")
            if not key.replace("_", "").isalnum() or key != key.lower():
                raise ValueError(f"settings.{key} is not the name of a settings field")
        return self


class Topology(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")
    description: str = ""
    engine: EngineName = "auto"
    transport: Literal["ipc", "tcp"] = "ipc"
    """tcp: every process on its own loopback port, every worker as if on a host of its own."""
    policy: str = ""
    """Of the router; empty leaves its default."""
    gateway: RolePlan = RolePlan(count=1)
    router: RolePlan = RolePlan(count=1)
    prefill: RolePlan = RolePlan(count=0)
    decode: RolePlan = RolePlan(count=1)
    kvstore: RolePlan = RolePlan(count=1)

    @model_validator(mode="after")
    def _can_serve(self) -> Self:
        if self.router.count != 1:
            raise ValueError("router.count must be 1")
        if self.kvstore.count > 1:
            raise ValueError("kvstore.count must be 0 or 1: there is one on a host")
        if self.gateway.count < 1:
            raise ValueError("gateway.count must be at least 1")
        if self.decode.count < 1:
            raise ValueError("decode.count must be at least 1: nobody else emits a second token")
        return self


def parse_topology(text: str, source: str) -> Topology:
    """`source` is the file's name for messages; its stem must be the topology's name."""
    try:
        topology = Topology.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise DeployError(f"{source}: not TOML: {error}") from None
    except ValidationError as error:
        raise DeployError("\n".join(f"{source}: {line}" for line in _explained(error))) from None
    stem = source.rsplit("/", 1)[-1].removesuffix(".toml")
    if topology.name != stem:
        raise DeployError(f"{source}: name: is {topology.name!r}, but the file is called {stem}")
    return topology


def _explained(error: ValidationError) -> list[str]:
    lines = []
    for detail in error.errors():
        key = ".".join(str(part) for part in detail["loc"])
        message = detail["msg"].removeprefix("Value error, ")
        if detail["type"] == "extra_forbidden":
            message = "no such key"
        lines.append(f"{key}: {message}" if key else message)
    return lines
