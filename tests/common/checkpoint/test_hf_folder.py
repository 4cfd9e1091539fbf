import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from common.checkpoint.checkpoint import open_checkpoint
from common.checkpoint.errors import CheckpointError
from common.checkpoint.stored import Bf16
from common.checkpoint.tokenizer_source import SpecialTokens

Q = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture
def folder(llama_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(llama_folder, tmp_path / "model"))


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def shard(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {"one.safetensors": names[::2], "two.safetensors": names[1::2]}
    for file, held in parts.items():
        save_file({name: tensors[name] for name in held}, folder / file)
    index = {"weight_map": {name: file for file, held in parts.items() for name in held}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("arch", ["llama", "qwen3"])
def test_tensors_are_those_that_transformers_loads(
    arch: str, llama_folder: Path, qwen3_folder: Path
) -> None:
    folder = llama_folder if arch == "llama" else qwen3_folder
    checkpoint = open_checkpoint(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    expected = dict(model.named_parameters())
    assert set(checkpoint.tensor_names()) == set(expected)
    for name, parameter in expected.items():
        np.testing.assert_array_equal(checkpoint.tensor(name), parameter.detach().numpy())


def test_shards_give_the_same_tensors(llama_folder: Path, folder: Path) -> None:
    shard(folder)
    one, many = open_checkpoint(llama_folder), open_checkpoint(folder)
    for name in one.tensor_names():
        np.testing.assert_array_equal(one.tensor(name), many.tensor(name))


def test_a_bfloat16_folder_is_widened(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    narrow = {name: tensor.to(torch.bfloat16) for name, tensor in tensors.items()}
    save_file(narrow, folder / "model.safetensors")
    checkpoint = open_checkpoint(folder)
    np.testing.assert_array_equal(checkpoint.tensor(Q), narrow[Q].float().numpy())


def test_a_missing_tensor_or_file_is_named(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors[Q]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=f"tensor {Q} is missing"):
        open_checkpoint(folder).tensor("lm_head.weight")
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors does not exist"):
        open_checkpoint(folder).tensor("lm_head.weight")
    (folder / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"config\.json does not exist"):
        open_checkpoint(folder)


def test_a_missing_key_names_file_and_key(folder: Path) -> None:
    edit(folder / "config.json", hidden_size=None)
    with pytest.raises(CheckpointError, match=r"config\.json: key 'hidden_size' is missing"):
        open_checkpoint(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"config\.json is not JSON"):
        open_checkpoint(folder)


def test_an_index_cannot_reach_outside_the_folder(folder: Path) -> None:
    shard(folder)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {Q: "../secret.safetensors"}}))
    with pytest.raises(CheckpointError, match="outside the folder"):
        open_checkpoint(folder).digest()


def test_the_template_is_found_in_all_its_places(folder: Path) -> None:
    settings, template = folder / "tokenizer_config.json", folder / "chat_template.jinja"
    own = template.read_text()
    edit(settings, chat_template="inside")
    assert open_checkpoint(folder).chat_template() == own
    template.unlink()
    assert open_checkpoint(folder).chat_template() == "inside"
    named = [{"name": "tool", "template": "t"}, {"name": "default", "template": "d"}]
    edit(settings, chat_template=named)
    assert open_checkpoint(folder).chat_template() == "d"
    edit(settings, chat_template=None)
    assert open_checkpoint(folder).chat_template() is None


def test_special_tokens_are_strings_or_objects(folder: Path) -> None:
    assert open_checkpoint(folder).special_tokens == SpecialTokens(
        bos="<|im_start|>", eos="<|im_end|>", pad="<|endoftext|>"
    )
    edit(folder / "tokenizer_config.json", bos_token={"content": "<s>"}, unk_token="<unk>")
    special = open_checkpoint(folder).special_tokens
    assert (special.bos, special.unk) == ("<s>", "<unk>")


def test_the_digest_covers_weights_and_config_but_not_the_place(
    llama_folder: Path, folder: Path
) -> None:
    original = open_checkpoint(llama_folder).digest()
    assert open_checkpoint(folder).digest() == original
    edit(folder / "tokenizer_config.json", extra=1)
    assert open_checkpoint(folder).digest() == original
    edit(folder / "generation_config.json", eos_token_id=[2, 0])
    generation = open_checkpoint(folder).digest()
    assert generation != original
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    assert open_checkpoint(folder).digest() not in (original, generation)


def test_the_tokenizer_digest_covers_template_and_special_tokens(folder: Path) -> None:
    digests = [open_checkpoint(folder).tokenizer_digest()]
    (folder / "chat_template.jinja").write_text("other")
    digests.append(open_checkpoint(folder).tokenizer_digest())
    edit(folder / "tokenizer_config.json", bos_token="<|im_end|>")
    digests.append(open_checkpoint(folder).tokenizer_digest())
    edit(folder / "tokenizer.json", version="1.0 ")
    digests.append(open_checkpoint(folder).tokenizer_digest())
    assert len(set(digests)) == 4


def test_what_is_no_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not exist"):
        open_checkpoint(tmp_path / "absent")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(CheckpointError, match="neither a GGUF file"):
        open_checkpoint(tmp_path / "notes.txt")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_stored_matrix_is_bfloat16(dtype: torch.dtype, folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors = {name: tensor.to(dtype) for name, tensor in load_file(path).items()}
    save_file(tensors, path)
    stored = open_checkpoint(folder).stored(Q)
    assert isinstance(stored, Bf16)
    expected = tensors[Q].bfloat16()
    np.testing.assert_array_equal(stored.codes, expected.view(torch.uint16).numpy())
    assert stored.codes.flags.writeable == (dtype != torch.bfloat16), "a view of the file"
