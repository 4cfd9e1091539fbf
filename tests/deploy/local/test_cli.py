from pathlib import Path

import pytest

from deploy.local.cli import main, parser
from deploy.local.folders import Folders
from tests.support.clusters import fake_plan, start


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 1
    return capsys.readouterr().err


@pytest.mark.parametrize("command", ["status", "demo"])
def test_without_a_cluster_it_says_how_to_start_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert "make up" in refusal(capsys, "--run", str(tmp_path), command)


def test_down_without_a_cluster_is_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--run", str(tmp_path / "never"), "down"]) == 0
    assert capsys.readouterr().out == "Nothing was running\n"


def test_an_unknown_topology_names_the_known_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refusal(capsys, "--run", str(tmp_path), "up", "--topology", "9p9d")
    assert "'9p9d'" in error
    assert "1p1d, 1p1d-tcp" in error


def test_the_defaults_are_one_of_each_on_port_8000() -> None:
    options = parser().parse_args(["up"])
    assert (options.topology, options.model, options.port) == ("1p1d", "", 8000)


def test_a_command_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert "usage" in capsys.readouterr().err


@pytest.mark.cluster
def test_status_logs_and_down_speak_of_what_runs(
    folders: Folders, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    start(folders, fake_plan(folders, roles=("router", "decode")))
    run = ["--run", str(folders.root)]
    assert main([*run, "status"]) == 0
    shown = capsys.readouterr().out
    assert "decode-0" in shown
    assert "3/9" in shown
    assert "mood=fine" in shown
    assert main([*run, "logs", "decode-0"]) == 0
    assert "decode-0    process_started" in capsys.readouterr().out
    assert main([*run, "down"]) == 0
    assert "Stopped" in capsys.readouterr().out
