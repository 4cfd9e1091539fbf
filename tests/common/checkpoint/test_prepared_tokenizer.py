import json
from pathlib import Path

import pytest

import common.checkpoint.prepared_tokenizer as module
from common.checkpoint.checkpoint import open_checkpoint
from common.checkpoint.errors import CheckpointError
from common.checkpoint.prepared_tokenizer import prepare_tokenizer
from tests.support.tiny_gguf import tiny_gguf


def test_a_record_gives_the_same_source_without_opening_the_model(
    llama_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, cache = tiny_gguf(llama_folder, tmp_path / "m.gguf"), tmp_path / "cache"
    first = prepare_tokenizer(model, cache)
    checkpoint = open_checkpoint(model)
    assert first.tokenizer_json == checkpoint.tokenizer_json()
    assert first.digest == checkpoint.tokenizer_digest()
    monkeypatch.delattr(module, "open_checkpoint")
    assert prepare_tokenizer(model, cache) == first


def test_a_damaged_record_is_made_again(llama_folder: Path, tmp_path: Path) -> None:
    model, cache = tiny_gguf(llama_folder, tmp_path / "m.gguf"), tmp_path / "cache"
    first = prepare_tokenizer(model, cache)
    (record,) = (cache / "tokenizers").glob("*.json")
    good = json.loads(record.read_text())
    for damage in ("", "[]", "{}", json.dumps({**good, "chat_template": "other"})):
        record.write_text(damage)
        assert prepare_tokenizer(model, cache) == first
    assert json.loads(record.read_text()) == good


def test_a_folder_is_read_where_it_lies(llama_folder: Path, tmp_path: Path) -> None:
    source = prepare_tokenizer(llama_folder, tmp_path / "cache")
    assert source.digest == open_checkpoint(llama_folder).tokenizer_digest()
    assert not (tmp_path / "cache").exists()
    with pytest.raises(CheckpointError, match="does not exist"):
        prepare_tokenizer(tmp_path / "absent", tmp_path / "cache")
