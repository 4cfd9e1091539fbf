"""Clusters that more than one file uses: starting one takes seconds, an idle one costs nothing."""

from collections.abc import Iterator

import pytest

from tests.support.default_model import default_model
from tests.support.live import TOPOLOGIES, Live, live_cluster


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """The default model, in chunks of one block, with few blocks on decode."""
    default_model()
    topology = str(TOPOLOGIES / "small-1p1d.toml")
    with live_cluster(tmp_path_factory.mktemp("run"), topology) as live:
        yield live


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Mock workers, two of each role, at a pace."""
    topology = str(TOPOLOGIES / "mock-2p2d.toml")
    with live_cluster(tmp_path_factory.mktemp("run"), topology) as live:
        yield live
