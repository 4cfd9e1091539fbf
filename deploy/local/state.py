"""What runs, in a file: written by the supervisor, read by everybody else.

The file is replaced as a whole, so a reader never sees half of it. It may be stale (its writer was
killed), so a reader checks identities before it believes them.
"""

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from deploy.local.identity import Identity
from deploy.local.plan import RoleName


class Phase(StrEnum):
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    FAILED = "failed"


class ProcessState(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    role: RoleName
    admin_port: int
    identity: Identity | None
    """None between two lives."""
    restarts: int
    ready: bool
    """Was ready once in this life."""


class ClusterState(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    supervisor: Identity
    topology: str
    url: str
    phase: Phase
    processes: tuple[ProcessState, ...] = ()
    error: str = ""
    """Why phase is FAILED."""
    failed_process: str = ""


def write_state(path: Path, state: ClusterState) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(state.model_dump_json(indent=1))
    partial.replace(path)


def read_state(path: Path) -> ClusterState | None:
    """None: there is none, or it is of another version of this program."""
    try:
        return ClusterState.model_validate_json(path.read_text())
    except (FileNotFoundError, ValidationError):
        return None
