import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Quantization
from safetensors.torch import load_file, save_file

import common.kernels.packed_model as module
from common.checkpoint.checkpoint import Checkpoint, open_checkpoint
from common.checkpoint.errors import CheckpointError
from common.checkpoint.prepared import prepare
from common.checkpoint.safetensors_file import Float32Array
from common.checkpoint.stored import Q4, Bf16, dequantised
from common.kernels.fused import fused_matrices, fused_vectors
from common.kernels.packed_matrix import Kind
from common.kernels.packed_model import PackedModel, pack_model
from common.kernels.tiles import unpack
from tests.support.default_model import default_model
from tests.support.tiny_gguf import tiny_gguf


@pytest.fixture
def model(llama_folder: Path, tmp_path: Path) -> Path:
    return tiny_gguf(llama_folder, tmp_path / "m.gguf", Quantization.Q4_1)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def packings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files packed in this process."""
    packed: list[Path] = []

    def opened(path: Path, cache: Path | None = None) -> Checkpoint:
        packed.append(path)
        return open_checkpoint(path, cache)

    monkeypatch.setattr(module, "open_checkpoint", opened)
    return packed


def cached_file(cache: Path) -> Path:
    (place,) = (cache / "packed").glob("*.safetensors")
    return place


def bfloat16(values: Float32Array) -> Float32Array:
    return torch.tensor(values).bfloat16().float().numpy()


def same(a: PackedModel, b: PackedModel) -> bool:
    return (
        a.config == b.config
        and a.weights_digest == b.weights_digest
        and a.matrices.keys() == b.matrices.keys()
        and all(np.array_equal(a.matrices[n].tiles, b.matrices[n].tiles) for n in a.matrices)
        and all(np.array_equal(a.vectors[n], b.vectors[n]) for n in a.vectors)
    )


@pytest.mark.parametrize(
    ("quantization", "kind"),
    [
        (Quantization.F32, Kind.BF16),
        (Quantization.F16, Kind.BF16),
        (Quantization.BF16, Kind.BF16),
        (Quantization.Q8_0, Kind.Q8),
        (Quantization.Q4_0, Kind.Q4),
        (Quantization.Q4_1, Kind.Q4),
    ],
)
@pytest.mark.parametrize("arch", ["llama", "qwen3"])
def test_matrices_hold_the_rounded_weights_of_the_checkpoint(
    arch: str,
    quantization: Quantization,
    kind: Kind,
    llama_folder: Path,
    qwen3_folder: Path,
    tmp_path: Path,
) -> None:
    folder = llama_folder if arch == "llama" else qwen3_folder
    path = tiny_gguf(folder, tmp_path / "m.gguf", quantization)
    packed, checkpoint = pack_model(path, "bf16", tmp_path), open_checkpoint(path)
    assert packed.config == checkpoint.config
    assert packed.matrices.keys() == fused_matrices(packed.config).keys()
    assert ("embedding" in packed.matrices) == (arch == "llama")
    for name, fused in fused_matrices(packed.config).items():
        matrix = packed.matrices[name]
        expected = fused.join([bfloat16(checkpoint.tensor(part)) for part in fused.parts])
        assert matrix.kind is kind
        assert (matrix.rows, matrix.cols) == expected.shape
        np.testing.assert_array_equal(unpack(matrix), expected, err_msg=name)
    assert packed.vectors.keys() == fused_vectors(packed.config).keys()
    for name, fused in fused_vectors(packed.config).items():
        expected = fused.join([checkpoint.tensor(part) for part in fused.parts])
        np.testing.assert_array_equal(packed.vectors[name], expected)


def test_int8_takes_the_codes_of_the_file(model: Path, cache: Path) -> None:
    """A block of 32 columns of bfloat16 has a scale of its own."""
    packed, checkpoint = pack_model(model, "int8", cache), open_checkpoint(model)
    for name, fused in fused_matrices(packed.config).items():
        matrix = packed.matrices[name]
        stored = fused.join_stored([checkpoint.stored(part) for part in fused.parts])
        exact = dequantised(stored)
        if isinstance(stored, Bf16):
            assert matrix.kind is Kind.QUADS8
            assert np.abs(unpack(matrix) - exact).max() <= np.abs(exact).max() / 250
        else:
            assert matrix.kind is (Kind.QUADS4 if isinstance(stored, Q4) else Kind.QUADS8)
            np.testing.assert_array_equal(unpack(matrix), exact, err_msg=name)


def test_a_folder_packs_like_a_file_of_the_same_weights(
    llama_folder: Path, tmp_path: Path, cache: Path
) -> None:
    folder = Path(shutil.copytree(llama_folder, tmp_path / "narrow"))
    narrow = {n: t.bfloat16() for n, t in load_file(folder / "model.safetensors").items()}
    save_file(narrow, folder / "model.safetensors")
    for path in (folder, llama_folder):
        packed = pack_model(path, "bf16", cache)
        file = pack_model(tiny_gguf(llama_folder, tmp_path / "f.gguf"), "bf16", cache)
        for name, matrix in file.matrices.items():
            np.testing.assert_array_equal(packed.matrices[name].tiles, matrix.tiles)


def test_the_second_call_does_not_pack_again(
    model: Path, cache: Path, packings: list[Path]
) -> None:
    first = pack_model(model, "bf16", cache)
    assert cached_file(cache).stem == first.weights_digest
    assert same(pack_model(model, "bf16", cache), first)
    assert packings == [model]


_CHILD = """
import sys
from pathlib import Path
from common.kernels.packed_model import pack_model
packed = pack_model(Path(sys.argv[1]), "int8", Path(sys.argv[2]))
(place,) = Path(sys.argv[2], "packed").glob("*.safetensors")
print(place.stat().st_ino, sum(int(m.tiles.sum()) for m in packed.matrices.values()))
assert "torch" not in sys.modules
"""


def test_processes_that_start_together_pack_once_and_without_torch(
    model: Path, cache: Path
) -> None:
    command = [sys.executable, "-c", _CHILD, str(model), str(cache)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    seen = {child.communicate(timeout=50)[0] for child in children}
    assert [child.returncode for child in children] == [0, 0]
    assert len(seen) == 1
    leftovers = {path.suffix for path in (cache / "packed").iterdir()}
    assert leftovers == {".safetensors", ".lock"}


@pytest.mark.parametrize("damage", ["cut", "flipped tile", "flipped kind", "empty", "noise"])
@pytest.mark.parametrize("arithmetic", ["bf16", "int8"])
def test_a_damaged_file_is_made_again(
    arithmetic: str, damage: str, model: Path, cache: Path, packings: list[Path]
) -> None:
    pack_model(model, arithmetic, cache)
    place = cached_file(cache)
    whole = place.read_bytes()
    content = bytearray(whole)
    match damage:
        case "cut":
            content = content[:-100]
        case "flipped tile":
            content[-5000] ^= 4
        case "flipped kind":
            content[content.index(b'"matrix layers.0.qkv":"') + 23] ^= 1
        case "empty":
            content.clear()
        case _:
            content = bytearray(np.random.default_rng(1).bytes(5000))
    place.unlink()
    place.write_bytes(content)
    pack_model(model, arithmetic, cache)
    assert packings == [model, model]
    assert place.read_bytes() == whole


def test_the_digest_names_file_arithmetic_and_form(
    model: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copy(model, tmp_path / "copy.gguf"))
    digest = pack_model(model, "bf16", cache).weights_digest
    assert pack_model(copy, "bf16", cache).weights_digest == digest
    others = {
        pack_model(model, "int8", cache).weights_digest,
        prepare(model, "fp32", cache).weights_digest,
    }
    monkeypatch.setattr(module, "_FORM", "packed next")
    others.add(pack_model(model, "bf16", cache).weights_digest)
    assert len(others - {digest}) == 3


def test_what_cannot_be_packed_is_an_error(model: Path, tmp_path: Path, cache: Path) -> None:
    with pytest.raises(CheckpointError, match="'fp32' is not known: bf16, int8"):
        pack_model(model, "fp32", cache)
    with pytest.raises(CheckpointError, match="absent does not exist"):
        pack_model(tmp_path / "absent", "bf16", cache)


def test_the_default_model_keeps_its_four_bit_weights(cache: Path) -> None:
    packed = pack_model(default_model(), "bf16", cache)
    kinds = {name.split(".")[-1]: matrix.kind for name, matrix in packed.matrices.items()}
    of_layers = dict.fromkeys(("qkv", "output", "gate_up", "down"), Kind.Q4)
    assert kinds == {**of_layers, "head": Kind.Q8}
