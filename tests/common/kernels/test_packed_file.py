import json
import re
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from safetensors.numpy import load_file, save_file

from common.checkpoint.checked_file import checked_file
from common.checkpoint.checkpoint import open_checkpoint
from common.kernels.packed_file import read_packed, write_packed
from common.kernels.tiles import unpack
from tests.support.tiny_gguf import tiny_gguf
from tests.support.tiny_models import tiny_llama


@pytest.fixture
def model(llama_folder: Path, tmp_path: Path) -> Path:
    return tiny_gguf(llama_folder, tmp_path / "m.gguf", GGMLQuantizationType.Q4_1)


@pytest.mark.parametrize("arithmetic", ["bf16", "int8"])
def test_what_was_written_is_mapped_on_cache_lines(
    arithmetic: str, model: Path, tmp_path: Path
) -> None:
    place = tmp_path / "packed" / "x.safetensors"
    write_packed(place, open_checkpoint(model), arithmetic)
    found = read_packed(place)
    assert found is not None
    config, matrices, vectors = found
    assert config == open_checkpoint(model).config
    arrays = [matrix.tiles for matrix in matrices.values()]
    for array in [*arrays, *vectors.values()]:
        assert not array.flags.writeable
        assert not array.flags.owndata
    assert all(array.ctypes.data % 64 == 0 for array in arrays)
    loaded = load_file(place)
    for name, matrix in matrices.items():
        np.testing.assert_array_equal(loaded[name], matrix.tiles)


def test_sizes_and_biases_are_free(tmp_path: Path) -> None:
    folder = tiny_llama(
        tmp_path / "odd",
        1,
        hidden_size=36,
        intermediate_size=50,
        head_dim=18,
        attention_bias=True,
        mlp_bias=True,
    )
    tensors, rng = load_file(folder / "model.safetensors"), np.random.default_rng(1)
    biases = {n: rng.normal(size=v.shape) for n, v in tensors.items() if n.endswith(".bias")}
    assert len(biases) == 14
    tensors |= {name: values.astype(np.float32) for name, values in biases.items()}
    save_file(tensors, folder / "model.safetensors")
    checkpoint = open_checkpoint(folder)
    write_packed(tmp_path / "x", checkpoint, "bf16")
    found = read_packed(tmp_path / "x")
    assert found is not None
    _, matrices, vectors = found
    down = unpack(matrices["layers.1.down"])
    assert down.shape == (36, 50)
    exact = checkpoint.tensor("model.layers.1.mlp.down_proj.weight")
    np.testing.assert_allclose(down, exact, rtol=2**-8)
    gate_up = vectors["layers.0.gate_up.bias"]
    up = checkpoint.tensor("model.layers.0.mlp.up_proj.bias")
    np.testing.assert_array_equal(gate_up[16:32], up[:16])
    assert up[:16].all()
    assert gate_up.shape == (16 * matrices["layers.0.gate_up"].strips,)
    assert vectors["layers.0.qkv.bias"].shape == (16 * matrices["layers.0.qkv"].strips,)


def test_a_file_with_a_config_of_another_version_is_not_read(tmp_path: Path) -> None:
    with checked_file(tmp_path / "x", 1000) as file:
        file.metadata["config"] = json.dumps({"hidden": 7})
    assert read_packed(tmp_path / "x") is None
    assert read_packed(tmp_path / "absent") is None


def test_kinds_stand_in_the_metadata(model: Path, tmp_path: Path) -> None:
    write_packed(tmp_path / "x", open_checkpoint(model), "bf16")
    header = (tmp_path / "x").read_bytes()[:8000].decode("latin-1")
    assert re.search(r'"matrix layers\.0\.qkv":"2 128 64"', header)
