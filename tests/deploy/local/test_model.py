from pathlib import Path

import pytest

from common.kernels.library import Level
from deploy.local import model
from deploy.local.errors import DeployError
from deploy.local.model import NATIVE_BYTES, TORCH_BYTES, ReadyModel
from deploy.local.plan import ProcessSpec, RoleName
from tests.support.tiny_models import tiny_llama

FITS = {"head_dim": 32}


def spec(name: str, role: RoleName = "decode", engine: str = "auto", **env: str) -> ProcessSpec:
    variables = {f"TWINFLEET_{key.upper()}": value for key, value in env.items()}
    return ProcessSpec(name, role, "", 0, {"TWINFLEET_ENGINE": engine, **variables})


def ready(path: Path, cache: Path, *specs: ProcessSpec, best: Level = Level.AVX2) -> ReadyModel:
    return model.make_ready(path, cache, specs, best, lambda text: None)


def test_a_path_that_does_not_exist_is_a_message(tmp_path: Path) -> None:
    with pytest.raises(DeployError, match=r"no\.gguf' does not exist"):
        model.fetched(str(tmp_path / "no.gguf"), tmp_path / "cache", lambda text: None)


def test_a_download_is_announced_with_its_size_and_place_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def no_network(name: str, cache: Path) -> Path:
        assert len(said) == 1
        raise model.CheckpointError("no network")

    monkeypatch.setattr(model, "resolve_model", no_network)
    with pytest.raises(DeployError, match="no network"):
        model.fetched("", tmp_path / "cache", said.append)
    assert "about 100 MB" in said[0]
    assert str(tmp_path / "cache") in said[0]


def test_a_disk_too_small_is_noticed_before_the_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "free_disk", lambda folder: 10)
    with pytest.raises(DeployError, match="the default model needs"):
        model.fetched("", tmp_path / "cache", lambda text: None)


def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "has_torch", lambda: False)


def test_native_workers_find_the_model_packed_and_torch_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_torch(monkeypatch)
    path = tiny_llama(tmp_path / "tiny", 1, **FITS)
    cache = tmp_path / "cache"
    made = ready(path, cache, spec("a"), spec("b"), spec("c", "gateway"))
    (packed,) = (cache / "packed").glob("*.safetensors")
    assert not (cache / "prepared").exists()
    assert 0 < made.mapped_bytes <= packed.stat().st_size
    own = NATIVE_BYTES + made.mapped_bytes
    assert made.worker_bytes == {"a": own, "b": own}


def test_each_arithmetic_is_packed_once(tmp_path: Path) -> None:
    path = tiny_llama(tmp_path / "tiny", 1, **FITS)
    workers = [spec("a"), spec("b", arithmetic="int8"), spec("c", arithmetic="int8")]
    one, both = ready(path, tmp_path, *workers[:1]), ready(path, tmp_path, *workers)
    assert len(list((tmp_path / "packed").glob("*.safetensors"))) == 2
    assert both.mapped_bytes > one.mapped_bytes


@pytest.mark.parametrize(
    ("sizes", "best", "worker"),
    [
        (FITS, Level.NONE, spec("a")),
        ({"head_dim": 16}, Level.AMX, spec("a")),
        (FITS, Level.AMX, spec("a", device="cuda:0")),
        (FITS, Level.AMX, spec("a", engine="torch")),
    ],
    ids=["nothing built", "sizes do not suit", "on a GPU", "asked for"],
)
def test_workers_of_torch_find_the_model_in_fp32(
    tmp_path: Path, sizes: dict[str, object], best: Level, worker: ProcessSpec
) -> None:
    path = tiny_llama(tmp_path / "tiny", 1, **sizes)
    made = ready(path, tmp_path / "cache", worker, best=best)
    assert made.worker_bytes == {"a": TORCH_BYTES}
    assert made.mapped_bytes > 0


def test_torch_that_is_needed_and_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_torch(monkeypatch)
    path = tiny_llama(tmp_path / "tiny", 1)
    with pytest.raises(DeployError, match="torch is not installed"):
        ready(path, tmp_path, spec("a"))


@pytest.mark.parametrize(
    ("sizes", "best", "complaint"),
    [
        (FITS, Level.NONE, "not built here"),
        ({"head_dim": 16}, Level.AVX2, "head_dim must be a multiple of 32"),
    ],
)
def test_native_asked_for_and_not_possible_is_said(
    tmp_path: Path, sizes: dict[str, object], best: Level, complaint: str
) -> None:
    path = tiny_llama(tmp_path / "tiny", 1, **sizes)
    with pytest.raises(DeployError, match=complaint):
        ready(path, tmp_path, spec("a", engine="native"), best=best)
