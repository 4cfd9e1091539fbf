"""Native kernels where they can run, torch where they cannot, and a log line that says why."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from common.checkpoint.errors import CheckpointError
from common.engine.native_runner import NativeRunner
from common.engine.torch_runner import TorchRunner
from common.kernels import library
from common.worker.auto_engine import load
from tests.support.native_bench import NEEDS_NATIVE
from tests.support.tiny_models import tiny_llama
from tests.support.worker_settings import worker_settings


@pytest.fixture
def nothing_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    library.load_library.cache_clear()
    monkeypatch.setattr(library, "built_library", lambda: tmp_path / "none.so")
    yield
    library.load_library.cache_clear()


@NEEDS_NATIVE
def test_native_kernels_come_first_and_nothing_is_said(tmp_path: Path) -> None:
    path = tiny_llama(tmp_path / "tiny", 1, head_dim=32)
    with capture_logs() as logs:
        loaded = load(worker_settings(tmp_path, model=str(path)))
    assert isinstance(loaded.runner, NativeRunner)
    assert loaded.card.arithmetic == "bf16"
    assert logs == []


@pytest.mark.usefixtures("nothing_built")
def test_without_a_build_it_is_torch_and_the_log_says_why(tmp_path: Path) -> None:
    path = tiny_llama(tmp_path / "tiny", 1, head_dim=32)
    with capture_logs() as logs:
        loaded = load(worker_settings(tmp_path, model=str(path)))
    assert isinstance(loaded.runner, TorchRunner)
    assert loaded.card.arithmetic == "fp32"
    assert [line["event"] for line in logs] == ["native_kernels_unavailable"]
    assert "not built" in logs[0]["reason"]


def test_a_model_that_the_kernels_do_not_take_goes_to_torch(tmp_path: Path) -> None:
    path = tiny_llama(tmp_path / "tiny", 1, head_dim=16)
    assert isinstance(load(worker_settings(tmp_path, model=str(path))).runner, TorchRunner)


def test_a_model_that_nobody_can_read_is_no_reason_for_torch(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        load(worker_settings(tmp_path, model=str(tmp_path / "none")))
