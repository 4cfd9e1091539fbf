import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from common.checkpoint.errors import CheckpointError
from common.checkpoint.safetensors_file import SafetensorsFile


def written(path: Path, header: object, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str
)
def test_every_float_width_reads_as_torch_reads_it(dtype: torch.dtype, tmp_path: Path) -> None:
    values = torch.randn(7, 5, generator=torch.Generator().manual_seed(3)).to(dtype)
    special = torch.tensor([0.0, -0.0, float("inf"), 1e-40, 65504.0]).to(dtype)
    save_file({"a": values, "b": special}, tmp_path / "x.safetensors")
    file = SafetensorsFile(tmp_path / "x.safetensors")
    for name, expected in (("a", values), ("b", special)):
        np.testing.assert_array_equal(file.tensor(name), expected.float().numpy())
        assert file.tensor(name).dtype == np.float32


def test_float32_is_a_read_only_view_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"a": torch.zeros(4)}, path)
    tensor = SafetensorsFile(path).tensor("a")
    assert not tensor.flags.writeable
    assert not tensor.flags.owndata
    with path.open("r+b") as file:
        file.seek(-4, 2)
        file.write(np.float32(2.5).tobytes())
    assert tensor[-1] == 2.5


def test_a_tensor_at_an_odd_offset_is_still_aligned_in_memory(tmp_path: Path) -> None:
    data = b"x" + np.array([1.5, -2.0], "<f4").tobytes()
    header = {
        "odd": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [1, 9]},
    }
    text = json.dumps(header).encode()
    file = SafetensorsFile(written(tmp_path / "x", text + b" " * (-len(text) % 8), data))
    assert file.entries["a"].start % 4 == 1
    assert file.tensor("a").tolist() == [1.5, -2.0]
    assert file.tensor("a").flags.aligned
    assert file.raw("odd").tobytes() == b"x"
    assert not file.raw("a").flags.writeable
    with pytest.raises(CheckpointError, match="odd is U8"):
        file.tensor("odd")


def entry(**changes: object) -> dict[str, object]:
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        (b"not json", "not JSON"),
        ([1], "not an object"),
        (entry(data_offsets=[0, 12], shape=[3]), "cut short"),
        (entry(data_offsets=[-4, 4]), "cut short"),
        (entry(data_offsets=[4, 0]), "cut short"),
        (entry(shape=[3]), "does not fill"),
        (entry(shape=[-2]), "does not fill"),
        (entry(shape="x"), "makes no sense"),
        (entry(data_offsets=[1]), "makes no sense"),
        ({"a": {}}, "makes no sense"),
        ({"a": 7}, "makes no sense"),
    ],
)
def test_a_header_that_does_not_fit_the_file_is_refused(
    header: object, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=complaint):
        SafetensorsFile(written(tmp_path / "x", header, bytes(8)))


@pytest.mark.parametrize("content", [b"", b"1234", (1 << 60).to_bytes(8, "little") + b"{}"])
def test_a_file_that_ends_inside_its_header_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"x: not a safetensors file, or cut short"):
        SafetensorsFile(tmp_path / "x")
