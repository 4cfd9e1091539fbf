from pathlib import Path

import pytest

from deploy.local import model
from deploy.local.errors import DeployError


def test_a_path_that_does_not_exist_is_a_message(tmp_path: Path) -> None:
    with pytest.raises(DeployError, match=r"no\.gguf' does not exist"):
        model.make_ready(str(tmp_path / "no.gguf"), tmp_path / "cache", lambda text: None)


def test_a_download_is_announced_with_its_size_and_place_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def no_network(name: str, cache: Path) -> Path:
        assert len(said) == 1
        raise model.CheckpointError("no network")

    monkeypatch.setattr(model, "resolve_model", no_network)
    with pytest.raises(DeployError, match="no network"):
        model.make_ready("", tmp_path / "cache", said.append)
    assert "about 100 MB" in said[0]
    assert str(tmp_path / "cache") in said[0]


def test_a_disk_too_small_is_noticed_before_the_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "free_disk", lambda folder: 10)
    with pytest.raises(DeployError, match="the default model needs"):
        model.make_ready("", tmp_path / "cache", lambda text: None)
