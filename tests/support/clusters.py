"""Plans of fake services for a real supervisor."""

from pathlib import Path

from deploy.local.folders import Folders
from deploy.local.identity import Identity
from deploy.local.launch import launch, take_run_folder
from deploy.local.plan import ProcessSpec, RoleName
from deploy.local.ports import free_ports
from deploy.local.run_plan import RunPlan
from deploy.local.state import ClusterState, ProcessState, read_state

ROLES: tuple[RoleName, ...] = ("router", "kvstore", "prefill", "decode", "gateway")


def fake_plan(
    folders: Folders,
    roles: tuple[RoleName, ...] = ROLES,
    start_limit_s: float = 20.0,
    env: dict[str, dict[str, str]] | None = None,
) -> RunPlan:
    """One process a role; `env` is by process name, '' for all."""
    env = env or {}
    specs = tuple(
        ProcessSpec(
            name=f"{role}-0",
            role=role,
            module="tests.support.fake_service",
            admin_port=port,
            env={
                "TWINFLEET_NAME": f"{role}-0",
                "TWINFLEET_RUN_DIR": str(folders.sockets),
                "TWINFLEET_BIND_ADDRESS": f"ipc://{folders.sockets}/{role}-0",
                "TWINFLEET_ADMIN_PORT": str(port),
                "FAKE_JOURNAL": str(journal(folders)),
                **env.get("", {}),
                **env.get(f"{role}-0", {}),
            },
        )
        for role, port in zip(roles, free_ports(len(roles)), strict=True)
    )
    return RunPlan(
        topology="fake",
        url="http://127.0.0.1:8000",
        start_limit_s=start_limit_s,
        processes=specs,
    )


def journal(folders: Folders) -> Path:
    return folders.root / "journal"


def notes(folders: Folders) -> list[str]:
    """What happened to all processes, in order: 'router-0 start', ..."""
    return journal(folders).read_text().splitlines()


def start(folders: Folders, plan: RunPlan) -> ClusterState:
    return launch(folders, take_run_folder(folders, print), plan, print)


def process(folders: Folders, name: str) -> ProcessState:
    state = read_state(folders.state)
    assert state is not None
    return next(process for process in state.processes if process.name == name)


def identities(state: ClusterState) -> list[Identity]:
    """Of its processes, all of which must live."""
    found = [process.identity for process in state.processes if process.identity]
    assert len(found) == len(state.processes)
    return found
