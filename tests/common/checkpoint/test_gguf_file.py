from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFReader, GGUFWriter
from gguf.quants import dequantize

from common.checkpoint.checkpoint import open_checkpoint
from common.checkpoint.config import FrequencyDivisors
from common.checkpoint.errors import CheckpointError
from common.checkpoint.gguf_file import hf_name, split_halves
from common.checkpoint.stored import Q4, Q8, Bf16, dequantised, round_bfloat16
from tests.support.tiny_gguf import tiny_gguf
from tests.support.tiny_models import tiny_llama


@pytest.mark.parametrize("arch", ["llama", "qwen3"])
def test_a_converted_file_gives_the_tensors_and_shape_of_the_original(
    arch: str, llama_folder: Path, qwen3_folder: Path, tmp_path: Path
) -> None:
    folder = llama_folder if arch == "llama" else qwen3_folder
    original = open_checkpoint(folder)
    converted = open_checkpoint(tiny_gguf(folder, tmp_path / "m.gguf"))
    assert converted.tensor_names() == original.tensor_names()
    for name in original.tensor_names():
        np.testing.assert_array_equal(converted.tensor(name), original.tensor(name), err_msg=name)
    assert converted.config.rms_norm_eps == pytest.approx(original.config.rms_norm_eps)
    for field in (
        "arch",
        "hidden",
        "layers",
        "heads",
        "kv_heads",
        "head_dim",
        "intermediate",
        "vocab",
        "context_tokens",
        "rope_theta",
        "tied_embeddings",
        "qk_norm",
        "bos_token_id",
        "eos_token_ids",
    ):
        assert getattr(converted.config, field) == getattr(original.config, field), field


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [(Kind.F16, 1e-3), (Kind.BF16, 4e-3), (Kind.Q8_0, 1e-2), (Kind.Q4_0, 0.15), (Kind.Q4_1, 0.1)],
)
def test_quantized_matrices_come_back_within_their_step(
    kind: Kind, tolerance: float, llama_folder: Path, tmp_path: Path
) -> None:
    original = open_checkpoint(llama_folder)
    quantized = open_checkpoint(tiny_gguf(llama_folder, tmp_path / "m.gguf", kind))
    name = "model.layers.1.self_attn.q_proj.weight"
    values, expected = quantized.tensor(name), original.tensor(name)
    assert values.dtype == np.float32
    assert 0 < np.abs(values - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("arch", ["llama", "qwen3"])
@pytest.mark.parametrize(
    ("kind", "kept"),
    [(Kind.F16, Bf16), (Kind.BF16, Bf16), (Kind.Q8_0, Q8), (Kind.Q4_0, Q4), (Kind.Q4_1, Q4)],
)
def test_stored_matrices_stand_for_the_same_weights(
    kind: Kind, kept: type, arch: str, llama_folder: Path, qwen3_folder: Path, tmp_path: Path
) -> None:
    folder = llama_folder if arch == "llama" else qwen3_folder
    checkpoint = open_checkpoint(tiny_gguf(folder, tmp_path / "m.gguf", kind))
    for name in checkpoint.tensor_names():
        if (weights := checkpoint.tensor(name)).ndim == 2:
            stored = checkpoint.stored(name)
            assert type(stored) is kept
            if kind is Kind.F16:
                np.testing.assert_array_equal(stored.codes, round_bfloat16(weights))
            else:
                np.testing.assert_array_equal(dequantised(stored), weights, err_msg=name)


@pytest.mark.parametrize("kind", [Kind.Q4_K, Kind.Q6_K])
def test_super_blocks_are_read(kind: Kind, tmp_path: Path) -> None:
    folder = tiny_llama(
        tmp_path / "wide", 3, hidden_size=256, intermediate_size=512, head_dim=64, vocab_size=320
    )
    path = tiny_gguf(folder, tmp_path / "m.gguf", kind)
    checkpoint = open_checkpoint(path)
    tensors = {hf_name(tensor.name): tensor for tensor in GGUFReader(path).tensors}
    q, down = (f"model.layers.1.{x}_proj.weight" for x in ("self_attn.q", "mlp.down"))
    for name, heads in ((q, 4), (down, None)):
        assert tensors[name].tensor_type is kind
        expected = dequantize(tensors[name].data, kind)
        if heads is not None:
            expected = split_halves(expected, heads)
        np.testing.assert_array_equal(checkpoint.tensor(name), expected)
        stored = checkpoint.stored(name)
        assert isinstance(stored, Bf16)
        np.testing.assert_array_equal(stored.codes, round_bfloat16(expected))


def test_rows_of_a_head_are_put_back_in_halves() -> None:
    interleaved = np.array([[0], [4], [1], [5], [2], [6], [3], [7]], dtype=np.float32)
    two_heads = np.concatenate([interleaved, interleaved + 10])
    expected = [*range(8), *range(10, 18)]
    assert split_halves(two_heads, 2).ravel().tolist() == expected


def test_rope_divisors_are_part_of_the_config(llama_folder: Path, tmp_path: Path) -> None:
    divisors = np.linspace(1, 8, 8, dtype=np.float32)

    def extra(writer: GGUFWriter) -> None:
        writer.add_tensor("rope_freqs.weight", divisors)

    checkpoint = open_checkpoint(tiny_gguf(llama_folder, tmp_path / "m.gguf", extra=extra))
    assert checkpoint.config.rope_scaling == FrequencyDivisors(tuple(map(float, divisors)))


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("blk.0.attn_sinks.weight", r"blk\.0\.attn_sinks\.weight"),
        ("blk.0.attn_q_norm.weight", r"model\.layers\.0\.self_attn\.q_norm\.weight"),
        ("blk.1.attn_v.bias", r"model\.layers\.1\.self_attn\.v_proj\.bias"),
    ],
)
def test_a_tensor_we_would_ignore_is_refused(
    name: str, named: str, llama_folder: Path, tmp_path: Path
) -> None:
    def extra(writer: GGUFWriter) -> None:
        writer.add_tensor(name, np.zeros(16, np.float32))

    path = tiny_gguf(llama_folder, tmp_path / "m.gguf", extra=extra)
    with pytest.raises(CheckpointError, match=rf"m\.gguf: tensor {named}"):
        open_checkpoint(path)


def test_names_follow_the_hugging_face_layout() -> None:
    assert hf_name("blk.17.attn_output.weight") == "model.layers.17.self_attn.o_proj.weight"
    assert hf_name("output.weight") == "lm_head.weight"


@pytest.mark.parametrize("size", [5, 40, 3000, 30_000])
def test_a_file_cut_short_is_named(size: int, llama_folder: Path, tmp_path: Path) -> None:
    path = tiny_gguf(llama_folder, tmp_path / "m.gguf")
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CheckpointError, match=r"m\.gguf: not a GGUF file we can read"):
        open_checkpoint(path)


def test_the_digest_is_that_of_the_file(llama_folder: Path, tmp_path: Path) -> None:
    one = open_checkpoint(tiny_gguf(llama_folder, tmp_path / "a.gguf"))
    same = open_checkpoint(tiny_gguf(llama_folder, tmp_path / "b.gguf"))
    other = open_checkpoint(tiny_gguf(llama_folder, tmp_path / "c.gguf", Kind.Q8_0))
    assert one.digest() == same.digest() != other.digest()
    assert one.tokenizer_digest() == other.tokenizer_digest()
