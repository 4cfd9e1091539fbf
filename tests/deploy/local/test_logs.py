import json
from pathlib import Path

import pytest

from deploy.local.folders import Folders
from deploy.local.logs import follow_logs, show_logs


def line(second: int, event: str) -> str:
    return json.dumps({"event": event, "timestamp": f"2030-01-01T10:00:{second:02}.000Z"}) + "\n"


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    result = Folders(tmp_path)
    result.logs.mkdir()
    result.log("a").write_text(line(1, "one") + line(3, "three"))
    result.log("b").write_text(line(2, "two"))
    return result


def events(shown: list[str]) -> list[str]:
    return [text.split()[-1] for text in shown]


def test_the_last_lines_of_all_logs_are_shown(folders: Folders) -> None:
    shown: list[str] = []
    show_logs(folders, [], 2, shown.append)
    assert events(shown) == ["two", "three"]


def test_only_the_named_process_is_shown(folders: Folders) -> None:
    shown: list[str] = []
    show_logs(folders, ["b"], 10, shown.append)
    assert events(shown) == ["two"]


def test_a_long_log_is_not_read_from_its_start(folders: Folders) -> None:
    folders.log("c").write_text("".join(line(4, f"event{index}") for index in range(10_000)))
    shown: list[str] = []
    show_logs(folders, ["c"], 100_000, shown.append)
    assert events(shown)[-1] == "event9999"
    assert 1000 < len(shown) < 10_000


def test_following_shows_every_later_line_once_and_whole(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = line(5, "five")
    writes = [whole[:10], whole[10:] + line(6, "six"), None]

    def passes(seconds: float) -> None:
        text = writes.pop(0)
        if text is None:
            raise KeyboardInterrupt
        with folders.log("a").open("a") as file:
            file.write(text)

    monkeypatch.setattr("deploy.local.logs.time.sleep", passes)
    shown: list[str] = []
    ends = show_logs(folders, [], 0, lambda text: None)
    with pytest.raises(KeyboardInterrupt):
        follow_logs(folders, [], ends, shown.append)
    assert events(shown) == ["five", "six"]
