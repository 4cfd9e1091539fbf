"""What every process must be told, read from the environment and from nowhere else.

A service derives its own class and adds fields; `TWINFLEET_` + the field's name in capitals is the
variable. Only the service's composition root (app.py) reads the object, once.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

ENV_PREFIX = "TWINFLEET_"
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["json", "console"]
EngineName = Literal["auto", "native", "torch", "mock"]


class ProcessSettings(BaseSettings):
    """Fields common to all roles."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, frozen=True, extra="forbid", protected_namespaces=()
    )

    name: str = Field(
        pattern=r"^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$",
        description="Name of this process in the cluster, for example decode-0.",
    )
    run_dir: Path = Field(description="Folder (mode 0700) for the sockets of this process.")
    admin_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="Loopback port of /live, /ready, /metrics and /status; 0 serves none.",
    )
    host: str = Field(
        default="",
        description="Processes with the same value share memory; empty means this machine.",
    )
    router_address: str = Field(
        default="", description="Where the router listens; empty in the router itself."
    )
    bind_address: str = Field(
        description="Where this process listens: ipc:///path or tcp://127.0.0.1:port."
    )
    log_level: LogLevel = Field(default="info", description="Least severe level that is logged.")
    log_format: LogFormat = Field(
        default="json", description="json: one object a line; console: for a terminal."
    )
    supervisor_pid: int = Field(
        default=0,
        ge=0,
        description="The process dies when this parent does; 0 means it lives on its own.",
    )
