from pathlib import Path

import pytest

from tests.support.tiny_models import tiny_llama, tiny_qwen3


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read only: tests that damage a file copy it first."""
    return tiny_llama(tmp_path_factory.mktemp("llama"), seed=1)


@pytest.fixture(scope="session")
def qwen3_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_qwen3(tmp_path_factory.mktemp("qwen3"), seed=2)
