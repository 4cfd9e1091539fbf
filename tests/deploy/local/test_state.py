from pathlib import Path

from deploy.local.identity import Identity
from deploy.local.state import ClusterState, Phase, ProcessState, read_state, write_state

STATE = ClusterState(
    supervisor=Identity(7, 70),
    topology="1p1d",
    url="http://127.0.0.1:8000",
    phase=Phase.READY,
    processes=(
        ProcessState(
            name="decode-0",
            role="decode",
            admin_port=9001,
            identity=Identity(8, 80),
            restarts=2,
            ready=True,
        ),
    ),
)


def test_a_state_can_be_read_back(tmp_path: Path) -> None:
    write_state(tmp_path / "state.json", STATE)
    assert read_state(tmp_path / "state.json") == STATE
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_no_file_is_no_state(tmp_path: Path) -> None:
    assert read_state(tmp_path / "state.json") is None


def test_a_file_of_another_version_is_no_state(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"supervisor": 7}')
    assert read_state(tmp_path / "state.json") is None
    (tmp_path / "state.json").write_text("{")
    assert read_state(tmp_path / "state.json") is None
