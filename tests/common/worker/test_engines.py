"""Which runners there are, and that naming one imports no other."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import get_args

from common.engine.mock import MockRunner
from common.worker.engines import ENGINES, load_engine
from common.worker.settings import WorkerSettings
from tests.support.source_tree import ROOT
from tests.support.worker_settings import worker_settings


def test_the_table_and_the_setting_name_the_same_engines() -> None:
    setting = WorkerSettings.model_fields["engine"]
    assert set(get_args(setting.annotation)) == set(ENGINES)
    for entry in ENGINES.values():
        module, name = entry.split(":")
        assert callable(getattr(import_module(module), name))


def test_the_one_that_is_asked_for_is_loaded(tmp_path: Path) -> None:
    loaded = load_engine(worker_settings(tmp_path, block_tokens=64))
    assert isinstance(loaded.runner, MockRunner)
    assert loaded.runner.layout.block_tokens == loaded.card.block_tokens == 64


def test_a_mock_worker_never_imports_torch() -> None:
    script = (
        "import sys; from pathlib import Path; from common.worker.build import build_parts; "
        "from tests.support.worker_settings import worker_settings; "
        "from common.worker.engines import load_engine; "
        "load_engine(worker_settings(Path('.'))); sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or "torch was imported"
