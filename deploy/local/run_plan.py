"""What `up` hands to the supervisor: the processes of a plan, in a file only the owner can read."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from deploy.local.plan import ProcessSpec


class RunPlan(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    topology: str
    url: str
    """Of the first gateway."""
    start_limit_s: float
    """For one stage to become ready."""
    processes: tuple[ProcessSpec, ...]


def write_run_plan(path: Path, plan: RunPlan) -> None:
    path.touch(mode=0o600)
    path.write_text(plan.model_dump_json(indent=1))


def read_run_plan(path: Path) -> RunPlan:
    return RunPlan.model_validate_json(path.read_text())
