"""Addresses are measured as they are; topologies get clusters, and are looked at before."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deploy.local.folders import Folders
from loadtest import contenders
from loadtest.cluster import Cluster
from loadtest.contenders import Access, is_address, of_sides, of_words
from loadtest.errors import LoadTestError
from loadtest.scenario import Side
from tests.support.load_plans import load, scenario

ONE = load({"kind": "poisson", "rate": 1.0}, sessions=1)


@pytest.fixture
def access(tmp_path: Path) -> Access:
    return Access(tmp_path / "run", tmp_path / "sides", model="m", api_key="secret")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path, str]]:
    """Sides that a cluster was started for, and where, and of which model."""
    seen: list[tuple[str, Path, str]] = []

    @asynccontextmanager
    async def side_cluster(side: Side, folder: Path, model: str) -> AsyncIterator[Cluster]:
        seen.append((side.topology, folder, model))
        yield Cluster("http://127.0.0.1:1", Folders(folder))

    monkeypatch.setattr(contenders, "side_cluster", side_cluster)
    return seen


@pytest.mark.parametrize(
    ("word", "address"),
    [("http://host:1", True), ("https://host/v1", True), ("1p1d", False), ("http.toml", False)],
)
def test_an_address_says_how_to_speak(word: str, address: bool) -> None:
    assert is_address(word) is address


async def test_two_addresses_are_measured_as_they_are_and_the_second_is_the_candidate(
    access: Access,
) -> None:
    found = of_words(("http://old", "http://new"), scenario(ONE), access)
    assert [one.name for one in found] == ["b (http://new)", "a (http://old)"]
    async with found[0].open() as server:
        assert (server.name, server.url) == ("b (http://new)", "http://new")
        assert (server.model, server.api_key, server.cluster) == ("m", "secret", None)


async def test_the_same_address_twice_is_two_sides(access: Access) -> None:
    found = of_words(("http://one", "http://one"), scenario(ONE), access)
    assert len({one.name for one in found}) == 2


async def test_a_topology_gets_a_cluster_each_time(
    access: Access, started: list[tuple[str, Path, str]]
) -> None:
    new, old = of_words(("aggregated", "1p1d"), scenario(ONE), access)
    assert started == []
    for one in (new, new, old):
        async with one.open() as server:
            assert server.cluster is not None
            # It is ours: no key is sent, and it serves one model, which it is asked for.
            assert (server.model, server.api_key) == ("", "")
    sides = access.side_folder
    assert started == [
        ("1p1d", sides / "b", "m"), ("1p1d", sides / "b", "m"), ("aggregated", sides / "a", "m"),
    ]  # fmt: skip


def test_a_topology_that_is_not_there_is_said_before_anything_starts(access: Access) -> None:
    with pytest.raises(LoadTestError, match=r"side b: .*nowhere"):
        of_words(("aggregated", "nowhere"), scenario(ONE), access)
    wrong = scenario(ONE, sides=[{"name": "new", "settings": {"no_such": 1}}, {"name": "old"}])
    with pytest.raises(LoadTestError, match=r"side new: settings\.no_such"):
        of_sides(wrong, access)


async def test_sides_see_the_scenario_with_their_changes(
    access: Access, started: list[tuple[str, Path, str]]
) -> None:
    changes = {"main": {"output_tokens": {"kind": "fixed", "tokens": 9}}}
    asked = scenario(ONE, sides=[{"name": "new", "workloads": changes}, {"name": "old"}])
    new, old = of_sides(asked, access)
    assert (new.name, old.name) == ("new", "old")
    assert new.scenario.loads != asked.loads
    assert old.scenario.loads == asked.loads
    async with old.open() as server:
        assert server.name == "old"
    assert started == [("aggregated", access.side_folder / "old", "m")]


def test_without_a_cluster_that_runs_there_is_nothing_to_measure(access: Access) -> None:
    with pytest.raises(LoadTestError, match="--base-url"):
        access.running_url()


def test_a_server_without_a_name_is_called_by_its_address(access: Access) -> None:
    assert access.server("http://one").name == "http://one"


async def test_a_password_in_an_address_is_asked_with_and_never_told(access: Access) -> None:
    url = "http://user:pass@127.0.0.1:1"
    told = [access.server(url).name]
    for one in of_words((url, url), scenario(ONE), access):
        async with one.open() as server:
            assert server.url == url
        told += [one.name, server.name]
    assert not [name for name in told if "pass" in name]
