import numpy as np
import pytest

from common.checkpoint.config import ModelConfig
from common.engine.bench.floors import Floors, StepNeeds, Work, head_weights, layer_weights
from common.engine.bench.pieces import Piece, batch_of

CONFIG = ModelConfig(
    arch="llama",
    hidden=8,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=2,
    intermediate=16,
    vocab=32,
    context_tokens=100,
    rope_theta=1e4,
    rope_scaling=None,
    rms_norm_eps=1e-5,
    tied_embeddings=True,
    attention_bias=False,
    mlp_bias=False,
    qk_norm=False,
    bos_token_id=None,
    eos_token_ids=(1,),
)
TABLE = np.arange(4, dtype=np.int32)
OTHER = np.arange(4, 8, dtype=np.int32)
NEEDS = StepNeeds(CONFIG, weight_bytes=1000.0, token_bytes=10, block_tokens=8)


def test_weights_are_counted_matrix_by_matrix() -> None:
    q, k, v, o = 8 * 8, 8 * 4, 8 * 4, 8 * 8
    assert layer_weights(CONFIG) == 2 * (q + k + v + o + 3 * 8 * 16)
    assert head_weights(CONFIG) == 8 * 32


def test_a_decode_reads_weights_once_and_each_context_once() -> None:
    batch = batch_of([Piece(TABLE, [5], 9, 1), Piece(OTHER, [6], 19, 1)])
    work = NEEDS.of(batch)
    assert work.bytes == 1000 + (10 + 20) * 10 + 2 * 10
    products = 2 * 2 * (layer_weights(CONFIG) + head_weights(CONFIG))
    assert work.flops == products + 4 * 2 * 4 * 2 * (10 + 20)


def test_blocks_that_several_attend_to_are_read_once() -> None:
    readers = [np.array([0, 1, own], np.int32) for own in (2, 3)]
    batch = batch_of([Piece(readers[0], [5], 17, 1), Piece(readers[1], [6], 20, 1)])
    assert NEEDS.of(batch).bytes == 1000 + (8 + 8 + 2 + 5) * 10 + 2 * 10


def test_a_chunk_attends_to_what_was_before_and_skips_heads_nobody_draws_from() -> None:
    work = NEEDS.of(batch_of([Piece(TABLE, [1, 2, 3], 4, 1)]))
    assert work.flops == 2 * (3 * layer_weights(CONFIG) + head_weights(CONFIG)) + 64 * (5 + 6 + 7)
    assert work.bytes == 1000 + 7 * 10 + 3 * 10


def test_work_adds_up() -> None:
    one = batch_of([Piece(TABLE, [5], 9, 1)])
    twice = NEEDS.total([one, one])
    assert twice == NEEDS.of(one) + NEEDS.of(one)
    assert twice.over(2) == NEEDS.of(one)
    assert NEEDS.total([]) == Work()


def test_the_fraction_reached_is_of_the_measured_peak() -> None:
    assert Floors(100.0, 50.0).reached(Work(50.0, 10.0), 2.0) == {
        "bandwidth": pytest.approx(0.25),
        "flops": pytest.approx(0.1),
    }
