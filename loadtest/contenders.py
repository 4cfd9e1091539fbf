"""What the words of a command line stand for: an address, or a topology of ours.

An address is measured as it is; a topology gets a cluster of its own for every measurement, with
caches that nobody has filled.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from loadtest.cluster import checked, running_address, running_cluster, side_cluster
from loadtest.errors import LoadTestError
from loadtest.experiment import Contender
from loadtest.run import Server
from loadtest.scenario import Scenario, Side
from loadtest.summary import without_password


@dataclass(frozen=True, slots=True)
class Access:
    """How servers are reached, whichever they are."""

    run_folder: Path
    """Of the cluster that `make up` started."""
    side_folder: Path
    """Of clusters started for a side."""
    model: str = ""
    """A server's name for it, or, for clusters that are started, its file or folder."""
    api_key: str = field(default="", repr=False)

    def running_url(self) -> str:
        """Of the cluster in `run_folder`. Raises LoadTestError."""
        url = running_address(self.run_folder)
        if url is None:
            raise LoadTestError("nothing to measure: give --base-url, or start a cluster: make up")
        return url

    def server(self, url: str, name: str = "") -> Server:
        cluster = running_cluster(self.run_folder, url)
        return Server(name or without_password(url), url, self.model, self.api_key, cluster)

    @asynccontextmanager
    async def at(self, url: str, name: str) -> AsyncIterator[Server]:
        yield self.server(url, name)

    @asynccontextmanager
    async def started(self, side: Side) -> AsyncIterator[Server]:
        folder = self.side_folder / side.name
        async with side_cluster(side, folder, self.model) as cluster:
            yield Server(side.name, cluster.url, cluster=cluster)


def of_sides(scenario: Scenario, access: Access) -> list[Contender]:
    """All that can be said before anything starts is said here. Raises LoadTestError."""
    contenders = []
    for side in scenario.sides:
        checked(side)
        contenders.append(
            Contender(side.name, scenario.for_side(side), partial(access.started, side))
        )
    return contenders


def of_words(words: tuple[str, str], scenario: Scenario, access: Access) -> list[Contender]:
    """The second word is the candidate. Raises LoadTestError."""
    contenders = []
    for letter, word in zip("ab", words, strict=True):
        if is_address(word):
            name = f"{letter} ({without_password(word)})"
            contenders.append(Contender(name, scenario, partial(access.at, word, name)))
        else:
            side = Side(name=letter, topology=word)
            checked(side)
            contenders.append(Contender(letter, scenario, partial(access.started, side)))
    return contenders[::-1]


def is_address(word: str) -> bool:
    return word.startswith(("http://", "https://"))
