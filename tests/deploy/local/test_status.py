from rich.console import Console

from deploy.local.admin_client import Report
from deploy.local.identity import Identity
from deploy.local.plan import RoleName
from deploy.local.state import ClusterState, Phase, ProcessState
from deploy.local.status import row, table

LIVING = Identity(8, 80)


def process(role: RoleName, identity: Identity | None = LIVING) -> ProcessState:
    return ProcessState(
        name=f"{role}-0", role=role, admin_port=9001, identity=identity, restarts=2, ready=True
    )


def test_a_workers_numbers_stand_in_their_columns() -> None:
    service: dict[str, object] = {
        "running": 3,
        "waiting": 1,
        "blocks_used": 10,
        "blocks_total": 64,
        "tokens": 999,
        "steps": 12,
    }
    assert row(Report(process("decode"), "ready", service)) == (
        "decode-0", "8", "9001", "ready", "2", "3", "1", "10/64", "999", "steps=12",
    )  # fmt: skip


def test_a_routers_queue_counts_as_waiting_and_a_stores_slots_as_blocks() -> None:
    assert row(Report(process("router"), "ready", {"queue_length": 5}))[6] == "5"
    slots: dict[str, object] = {"slots": {"free": 9, "total": 9, "leased": 0}}
    assert row(Report(process("kvstore"), "ready", slots))[7] == "0/9"


def test_what_has_no_column_is_shown_when_it_says_something() -> None:
    service: dict[str, object] = {
        "policy": "random",
        "model": None,
        "attempts": {"queued": 0, "streaming": 2},
        "members": [{"name": "decode-0"}],
        "misses": 0,
    }
    assert row(Report(process("router"), "ready", service))[9] == "policy=random streaming=2"


def test_a_dead_process_has_no_pid_and_no_numbers() -> None:
    cells = row(Report(process("decode", None), "dead, restarting", {}))
    assert cells[1] == "-"
    assert set(cells[5:]) == {""}


def test_the_table_names_topology_url_and_processes() -> None:
    state = ClusterState(
        supervisor=Identity(7, 70), topology="1p1d", url="http://127.0.0.1:8000", phase=Phase.READY
    )
    console = Console(width=140)
    with console.capture() as capture:
        console.print(table(state, [Report(process("decode"), "ready", {})]))
    shown = capture.get()
    assert "1p1d at http://127.0.0.1:8000: ready" in shown
    assert "decode-0" in shown
