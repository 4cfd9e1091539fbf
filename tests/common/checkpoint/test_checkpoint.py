"""Which reader a path gets, and that both readers show the same model."""

from pathlib import Path

import numpy as np
import pytest

from common.checkpoint.checkpoint import checkpoint_digest, open_checkpoint
from common.checkpoint.errors import CheckpointError
from tests.support.tiny_gguf import tiny_gguf
from tests.support.tiny_models import tiny_llama


def test_a_folder_and_a_gguf_file_of_one_model_are_one_model(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "folder", 1)
    file = tmp_path / "model.gguf"
    tiny_gguf(folder, file)
    there, here = open_checkpoint(folder), open_checkpoint(file)
    assert set(there.tensor_names()) == set(here.tensor_names())
    for name in there.tensor_names():
        np.testing.assert_array_equal(there.tensor(name), here.tensor(name))
    assert there.digest() != here.digest(), "a digest is of the bytes in the files"
    assert checkpoint_digest(folder, tmp_path / "cache") == there.digest()
    assert checkpoint_digest(file, tmp_path / "cache") == here.digest()


def test_what_is_no_model_is_refused_by_name(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a model")
    with pytest.raises(CheckpointError, match=r"notes\.txt is neither a GGUF file nor"):
        open_checkpoint(text)
    with pytest.raises(CheckpointError, match=r"nowhere does not exist"):
        open_checkpoint(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"nowhere does not exist"):
        checkpoint_digest(tmp_path / "nowhere", tmp_path)
