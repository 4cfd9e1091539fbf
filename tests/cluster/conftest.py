"""Clusters that more than one file uses: starting one takes seconds, an idle one costs nothing."""

from collections.abc import Iterator

import pytest

from common.kernels.library import Level, best_level
from tests.support.default_model import default_model
from tests.support.live import TOPOLOGIES, Live, live_cluster

FLOAT32_POOL = 20_643_840


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """The default model, in chunks of one block, with 28 blocks on decode."""
    default_model()
    topology = tmp_path_factory.mktemp("topology") / "small-1p1d.toml"
    # As the file has it for torch; the native kernels' bfloat16 blocks are half as large.
    pool = FLOAT32_POOL if best_level() is Level.NONE else FLOAT32_POOL // 2
    text = (TOPOLOGIES / topology.name).read_text()
    topology.write_text(text.replace(str(FLOAT32_POOL), str(pool)))
    with live_cluster(tmp_path_factory.mktemp("run"), str(topology)) as live:
        yield live


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Mock workers, two of each role, at a pace."""
    topology = str(TOPOLOGIES / "mock-2p2d.toml")
    with live_cluster(tmp_path_factory.mktemp("run"), topology) as live:
        yield live
