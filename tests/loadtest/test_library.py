"""Scenarios by name or path, and what `--set` does to them."""

from pathlib import Path

import pytest

from loadtest.arrivals import Poisson, Users
from loadtest.errors import LoadTestError
from loadtest.library import load_scenario, scenario_names

MINIMAL = """
name = "mine"
description = "Mine."
[[loads]]
sessions = 3
workload = { kind = "synthetic", prompt_tokens = 4, output_tokens = 5 }
arrivals = { kind = "poisson", rate = 2.0 }
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(MINIMAL)
    return str(path)


@pytest.mark.parametrize("name", scenario_names())
def test_every_scenario_of_ours_is_whole(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario.description.endswith(".")


def test_there_is_a_scenario() -> None:
    assert "chat" in scenario_names()


def test_one_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(LoadTestError, match=r"no scenario 'chess'; there are .*chat"):
        load_scenario("chess")


def test_a_path_is_a_scenario_too(file: str) -> None:
    assert load_scenario(file).loads[0].sessions == 3


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    with pytest.raises(LoadTestError, match="directory"):
        load_scenario(str(folder))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(LoadTestError, match="no text"):
        load_scenario(str(binary))


def test_a_file_that_is_no_toml_is_said_also_when_it_is_to_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("name =")
    for changes in ([], ["pairs=1"]):
        with pytest.raises(LoadTestError, match=r"bad\.toml: not TOML"):
            load_scenario(str(path), changes)


def test_changes_are_made_in_their_order_and_words_need_no_quotes(file: str) -> None:
    changes = [
        "loads.0.sessions=4",
        "loads.0.sessions=5",
        "request.endpoint=completions",
        "targets.ttft_ms=250.5",
        'loads.0.arrivals={kind="users", users=2}',
        'request.body={top_k=1, stop=["a = b"]}',
    ]
    found = load_scenario(file, changes)
    assert found.loads[0].sessions == 5
    assert found.loads[0].arrivals == Users(users=2)
    assert found.request.endpoint == "completions"
    assert found.targets.ttft_ms == 250.5
    assert found.request.body == {"top_k": 1, "stop": ["a = b"]}


def test_a_change_of_a_part_leaves_the_rest(file: str) -> None:
    assert load_scenario(file, ["loads.0.arrivals.rate=8"]).loads[0].arrivals == Poisson(rate=8)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("loads.0.sessions", "--set loads.0.sessions: give KEY=VALUE"),
        ("=3", "--set =3: give KEY=VALUE"),
        ("request.=3", "--set request.=3: give KEY=VALUE"),
        ("loads.1.sessions=3", "--set loads.1.sessions=3: 1 is no index of a list of 1"),
        ("loads.x.sessions=3", "--set loads.x.sessions=3: x is no index of a list of 1"),
        ("loads.-1=3", "--set loads.-1=3: -1 is no index"),
        ("name.part=3", "--set name.part=3: nothing can stand there"),
        ("name.part.more=3", "--set name.part.more=3: part is inside of something"),
        ("loads.0.session=3", "mine.toml: loads.0.session: no such key"),
        ("loads.0.sessions=-3", "mine.toml: loads.0.sessions: "),
        ("loads.0.arrivals.rate=0", "mine.toml: loads.0.arrivals.rate: "),
        ("loads.0.arrivals.rat=1", "mine.toml: loads.0.arrivals.rat: no such key"),
        ("request.limit_s=long", "mine.toml: request.limit_s: "),
        ("pairs=0", "mine.toml: pairs: "),
    ],
)
def test_a_change_that_cannot_be_names_its_key(file: str, change: str, said: str) -> None:
    with pytest.raises(LoadTestError) as raised:
        load_scenario(file, [change])
    assert said in str(raised.value)
