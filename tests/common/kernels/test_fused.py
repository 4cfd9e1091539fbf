from dataclasses import replace

import numpy as np
import pytest

from common.checkpoint.config import ModelConfig
from common.checkpoint.stored import Q4, Q8, Bf16, StoredTensor, as_bfloat16, dequantised
from common.checkpoint.tensor_shapes import tensor_shapes
from common.kernels.fused import Fused, fused_matrices, fused_vectors

CONFIG = ModelConfig(
    arch="llama",
    hidden=64,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=16,
    intermediate=128,
    vocab=100,
    context_tokens=512,
    rope_theta=10_000.0,
    rope_scaling=None,
    rms_norm_eps=1e-5,
    tied_embeddings=True,
    attention_bias=False,
    mlp_bias=False,
    qk_norm=False,
    bos_token_id=None,
    eos_token_ids=(),
)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("more", [True, False])
def test_every_tensor_is_used_once(tied: bool, more: bool) -> None:
    config = replace(CONFIG, tied_embeddings=tied, attention_bias=more, mlp_bias=more, qk_norm=more)
    fused = [*fused_matrices(config).values(), *fused_vectors(config).values()]
    used = [part for one in fused for part in one.parts]
    assert sorted(used) == sorted(tensor_shapes(config))


def test_the_names_are_those_the_kernels_are_given() -> None:
    matrices = ["qkv", "output", "gate_up", "down"]
    of_layers = [f"layers.{i}.{name}" for i in range(2) for name in matrices]
    assert list(fused_matrices(CONFIG)) == [*of_layers, "head"]
    untied = replace(CONFIG, tied_embeddings=False)
    assert list(fused_matrices(untied)) == ["embedding", *of_layers, "head"]
    norms = [f"layers.{i}.{name}_norm" for i in range(2) for name in ("input", "post")]
    assert list(fused_vectors(CONFIG)) == [*norms, "norm"]
    more = fused_vectors(replace(CONFIG, qk_norm=True, attention_bias=True))
    added = ("q_norm", "k_norm", "qkv.bias", "output.bias")
    assert more.keys() - fused_vectors(CONFIG).keys() == {
        f"layers.{i}.{name}" for i in range(2) for name in added
    }
    more = fused_vectors(replace(CONFIG, mlp_bias=True))
    assert more.keys() - fused_vectors(CONFIG).keys() == {
        f"layers.{i}.{name}.bias" for i in range(2) for name in ("gate_up", "down")
    }


def test_parts_follow_one_another() -> None:
    fused = fused_matrices(CONFIG)["layers.1.qkv"]
    assert [part.split(".")[-2] for part in fused.parts] == ["q_proj", "k_proj", "v_proj"]
    parts = [np.full((rows, 3), rows) for rows in (5, 2, 2)]
    assert fused.join(parts)[:, 0].tolist() == [5] * 5 + [2] * 4


def test_strips_of_gate_and_up_alternate() -> None:
    fused = fused_matrices(CONFIG)["layers.0.gate_up"]
    assert [part.split(".")[-2] for part in fused.parts] == ["gate_proj", "up_proj"]
    gate, up = np.arange(1, 41), np.arange(101, 141)
    zeros = [0] * 8
    expected = [*range(1, 17), *range(101, 117), *range(17, 33), *range(117, 133)]
    expected += [*range(33, 41), *zeros, *range(133, 141), *zeros]
    assert fused.join([gate, up]).tolist() == expected
    assert fused.join([gate[:, None], up[:, None]])[:, 0].tolist() == expected


def test_a_bias_is_padded_like_the_rows_of_its_matrix() -> None:
    biases = fused_vectors(replace(CONFIG, attention_bias=True, mlp_bias=True))
    joined = biases["layers.0.qkv.bias"].join([np.ones(20), np.ones(10), np.ones(10)])
    assert joined.tolist() == [1] * 40 + [0] * 24
    joined = biases["layers.0.gate_up.bias"].join([np.ones(24), np.ones(24)])
    assert joined.tolist() == [1] * 40 + [0] * 8 + [1] * 8 + [0] * 8


def matrices(seed: int) -> list[StoredTensor]:
    rng = np.random.default_rng(seed)
    halves = [rng.normal(size=(20, 2)).astype(np.float16) for _ in range(3)]
    return [
        Bf16(rng.integers(0, 0x7F80, (20, 64), dtype=np.uint16)),
        Q8(rng.integers(-128, 128, (20, 64), dtype=np.int8), halves[0]),
        Q4(rng.integers(0, 16, (20, 64), dtype=np.uint8), halves[1], halves[2]),
    ]


@pytest.mark.parametrize("interleaved", [False, True])
def test_parts_of_one_kind_keep_it(interleaved: bool) -> None:
    fused = Fused(("a", "b"), interleaved)
    for parts in zip(matrices(1), matrices(2), strict=True):
        joined = fused.join_stored(parts)
        assert type(joined) is type(parts[0])
        np.testing.assert_array_equal(
            dequantised(joined), fused.join([dequantised(part) for part in parts])
        )


def test_parts_of_different_kinds_become_bfloat16() -> None:
    fused = Fused(("a", "b", "c"))
    joined = fused.join_stored(matrices(1))
    assert isinstance(joined, Bf16)
    np.testing.assert_array_equal(
        joined.codes, np.concatenate([as_bfloat16(part).codes for part in matrices(1)])
    )
