import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_torch
from safetensors.torch import save_file

import common.checkpoint.prepared as module
from common.checkpoint.checkpoint import open_checkpoint
from common.checkpoint.errors import CheckpointError
from common.checkpoint.prepared import prepare
from tests.support.tiny_gguf import tiny_gguf


@pytest.fixture
def model(llama_folder: Path, tmp_path: Path) -> Path:
    return tiny_gguf(llama_folder, tmp_path / "m.gguf", GGMLQuantizationType.Q4_1)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files converted in this process."""
    converted: list[Path] = []

    def opened(path: Path, cache: Path | None = None):
        converted.append(path)
        return open_checkpoint(path, cache)

    monkeypatch.setattr(module, "open_checkpoint", opened)
    return converted


def cached_file(cache: Path) -> Path:
    (place,) = (cache / "prepared").glob("*.safetensors")
    return place


def test_weights_and_config_are_those_of_the_checkpoint(model: Path, cache: Path) -> None:
    prepared, checkpoint = prepare(model, "fp32", cache), open_checkpoint(model)
    assert prepared.config == checkpoint.config
    assert list(prepared.weights) == list(checkpoint.tensor_names())
    for name, weight in prepared.weights.items():
        np.testing.assert_array_equal(weight, checkpoint.tensor(name))
        assert weight.ctypes.data % 64 == 0
        assert not weight.flags.writeable
        assert not weight.flags.owndata


def test_the_second_call_does_not_convert_again(
    model: Path, cache: Path, conversions: list[Path]
) -> None:
    first = prepare(model, "fp32", cache)
    stat = cached_file(cache).stat()
    second = prepare(model, "fp32", cache)
    assert conversions == [model]
    assert cached_file(cache).stat().st_ino == stat.st_ino
    assert second.weights_digest == first.weights_digest
    assert second.config == first.config


_CHILD = """
import sys
from pathlib import Path
from common.checkpoint.prepared import prepare
prepared = prepare(Path(sys.argv[1]), "fp32", Path(sys.argv[2]))
(place,) = Path(sys.argv[2], "prepared").glob("*.safetensors")
print(place.stat().st_ino, sum(weight.sum() for weight in prepared.weights.values()))
"""


def test_processes_that_start_together_convert_once(model: Path, cache: Path) -> None:
    command = [sys.executable, "-c", _CHILD, str(model), str(cache)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    seen = {child.communicate(timeout=50)[0] for child in children}
    assert [child.returncode for child in children] == [0, 0, 0]
    assert len(seen) == 1
    leftovers = {path.suffix for path in (cache / "prepared").iterdir()}
    assert leftovers == {".safetensors", ".lock"}


@pytest.mark.parametrize("damage", ["cut", "flipped weight", "flipped config", "empty", "noise"])
def test_a_damaged_cache_file_is_made_again(
    damage: str, model: Path, cache: Path, conversions: list[Path]
) -> None:
    good = prepare(model, "fp32", cache)
    expected = {name: weight.copy() for name, weight in good.weights.items()}
    place = cached_file(cache)
    content = bytearray(place.read_bytes())
    match damage:
        case "cut":
            content = content[:-100]
        case "flipped weight":
            content[-5000] ^= 4
        case "flipped config":
            at = content.index(b'rope_theta\\": 10000.0') + len(b'rope_theta\\": ')
            content[at] ^= 2
        case "empty":
            content.clear()
        case _:
            content = bytearray(np.random.default_rng(1).bytes(5000))
    place.unlink()
    place.write_bytes(content)
    again = prepare(model, "fp32", cache)
    assert conversions == [model, model]
    assert again.config == good.config
    for name, weight in again.weights.items():
        np.testing.assert_array_equal(weight, expected[name])


def test_the_cached_file_is_plain_safetensors(model: Path, cache: Path) -> None:
    prepared = prepare(model, "fp32", cache)
    for name, values in load_file(cached_file(cache)).items():
        np.testing.assert_array_equal(values, prepared.weights[name])


def test_a_float32_folder_is_mapped_where_it_lies(llama_folder: Path, cache: Path) -> None:
    prepared = prepare(llama_folder, "fp32", cache)
    assert not (cache / "prepared").exists()
    for name, values in load_file(llama_folder / "model.safetensors").items():
        np.testing.assert_array_equal(prepared.weights[name], values)
        assert not prepared.weights[name].flags.owndata


def test_a_bfloat16_folder_is_converted(llama_folder: Path, tmp_path: Path, cache: Path) -> None:
    folder = Path(shutil.copytree(llama_folder, tmp_path / "narrow"))
    narrow = {n: t.bfloat16() for n, t in load_torch(folder / "model.safetensors").items()}
    save_file(narrow, folder / "model.safetensors")
    prepared = prepare(folder, "fp32", cache)
    assert cached_file(cache).exists()
    for name, tensor in narrow.items():
        np.testing.assert_array_equal(prepared.weights[name], tensor.to(torch.float32).numpy())


def test_the_digest_names_file_and_arithmetic(
    llama_folder: Path, model: Path, tmp_path: Path, cache: Path
) -> None:
    copy = Path(shutil.copy(model, tmp_path / "copy.gguf"))
    digest = prepare(model, "fp32", cache).weights_digest
    assert prepare(copy, "fp32", cache).weights_digest == digest
    assert prepare(llama_folder, "fp32", cache).weights_digest != digest
    assert digest != open_checkpoint(model).digest()
    with pytest.raises(CheckpointError, match="'fp12' is not known"):
        prepare(model, "fp12", cache)


def test_a_missing_model_is_an_error(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(CheckpointError, match="does not exist"):
        prepare(tmp_path / "absent", "fp32", cache)
