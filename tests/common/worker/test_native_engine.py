"""A worker in native kernels: its card says what must be equal between processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from common.checkpoint.prepared_tokenizer import prepare_tokenizer
from common.engine.native_runner import NativeRunner
from common.kernels.library import NativeUnavailable, best_level
from common.worker.native_engine import load
from tests.support.native_bench import NEEDS_NATIVE
from tests.support.source_tree import ROOT
from tests.support.tiny_models import CONTEXT_TOKENS, VOCAB, tiny_llama
from tests.support.worker_settings import worker_settings


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("native") / "tiny", 1, head_dim=32)


@NEEDS_NATIVE
@pytest.mark.parametrize("arithmetic", ["bf16", "int8"])
def test_the_card_is_the_models(tmp_path: Path, folder: Path, arithmetic: str) -> None:
    loaded = load(
        worker_settings(
            tmp_path, engine="native", model=str(folder), block_tokens=16, arithmetic=arithmetic
        )
    )
    card, runner = loaded.card, loaded.runner
    assert isinstance(runner, NativeRunner)
    assert (card.model, card.arithmetic, card.block_tokens) == ("tiny", arithmetic, 16)
    assert (card.vocab, card.context_tokens) == (VOCAB, CONTEXT_TOKENS)
    assert card.eos_token_ids == runner.eos_token_ids == (2,)
    assert card.weights_digest == runner.weights_digest
    assert card.tokenizer_digest == prepare_tokenizer(folder, tmp_path / "cache").digest
    assert runner.layout.block_tokens == 16


@NEEDS_NATIVE
def test_other_weights_and_other_arithmetic_are_other_digests(tmp_path: Path, folder: Path) -> None:
    other = tiny_llama(tmp_path / "other", 2, head_dim=32)
    digests = [
        load(worker_settings(tmp_path, model=str(path), arithmetic=arithmetic)).card.weights_digest
        for path, arithmetic in ((folder, "bf16"), (folder, "int8"), (other, "bf16"))
    ]
    assert len(set(digests)) == 3


@NEEDS_NATIVE
def test_the_level_is_the_settings(tmp_path: Path, folder: Path) -> None:
    for level, expected in (("avx2", "avx2"), ("best", best_level().name.lower())):
        runner = load(worker_settings(tmp_path, model=str(folder), cpu_level=level)).runner
        assert isinstance(runner, NativeRunner)
        assert runner.level == expected


@NEEDS_NATIVE
def test_a_model_whose_sizes_do_not_suit_is_refused(tmp_path: Path) -> None:
    path = tiny_llama(tmp_path / "narrow", 1, head_dim=16)
    with pytest.raises(NativeUnavailable, match="head_dim"):
        load(worker_settings(tmp_path, model=str(path)))


@NEEDS_NATIVE
def test_a_native_worker_never_imports_torch(tmp_path: Path, folder: Path) -> None:
    script = (
        "import sys; from pathlib import Path; import common.worker.build; "
        "from tests.support.worker_settings import worker_settings; "
        "from common.worker.engines import load_engine; "
        "run, model = sys.argv[1:]; "
        "load_engine(worker_settings(Path(run), engine='auto', model=model)); "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr or "torch was imported"
