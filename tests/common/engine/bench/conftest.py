"""One tiny model and one rig on it for all tests of the benchmark."""

from pathlib import Path

import pytest

from common.engine.bench.rig import Rig
from tests.support.bench_rig import TINY, tiny_rig
from tests.support.tiny_models import tiny_llama


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("llama"), 1)


@pytest.fixture(scope="session")
def rig(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    return tiny_rig(tiny_folder, tmp_path_factory.mktemp("cache"), TINY.slots(32))
