"""Drives one build of the native kernels through everything they do.

Run in a process of its own, with the sanitizers' runtime loaded before Python's. Models are tiny
and of sizes that fit nothing: the last tile, strip, panel and block are never full. Whatever the
sanitizers find ends the process.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np

from common.checkpoint.config import ModelConfig
from common.checkpoint.rope import rope_frequencies
from common.checkpoint.stored import Array
from common.engine.native_sampler import DrawParams
from common.kernels import library
from common.kernels.fused import fused_matrices, fused_vectors
from common.kernels.library import Kernels, Level, RaggedBatch
from common.kernels.packed_matrix import Kind, PackedMatrix
from common.kernels.packed_model import PackedModel
from common.kernels.tiles import pack, pack_quads
from tests.support.stored_tensors import BF16_KINDS, random_stored

CONTEXT = 300


def config_of(kind: Kind, *, odd: bool) -> ModelConfig:
    """`odd`: no size is a multiple of 32, the strips of gates are three. The other kinds of weights
    come in blocks of 32 columns."""
    return ModelConfig(
        arch="qwen3",
        hidden=36 if odd else 96,
        layers=2,
        heads=6,
        kv_heads=3 if odd else 2,
        head_dim=32 if odd else 96,
        intermediate=44 if odd else 160,
        vocab=77,
        context_tokens=CONTEXT,
        rope_theta=10_000.0,
        rope_scaling=None,
        rms_norm_eps=1e-5,
        tied_embeddings=kind is Kind.Q4,
        attention_bias=odd,
        mlp_bias=odd,
        qk_norm=True,
        bos_token_id=None,
        eos_token_ids=(1,),
    )


def packed_model(kind: Kind, *, odd: bool) -> PackedModel:
    config = config_of(kind, odd=odd)
    rng = np.random.default_rng(int(kind))
    shapes = _shapes(config)

    def matrix(parts: Sequence[str], name: str) -> PackedMatrix:
        fused = fused_matrices(config)[name]
        file_kind = {Kind.QUADS4: Kind.Q4, Kind.QUADS8: Kind.BF16}.get(kind, kind)
        stored = [random_stored(file_kind, *shapes[_short(part)], rng) for part in parts]
        joined = fused.join_stored(stored)
        return pack(joined) if kind in BF16_KINDS else pack_quads(joined)

    def vector(part: str) -> Array:
        return rng.uniform(0.5, 1.5, shapes[_short(part)][0]).astype(np.float32)

    matrices = {name: matrix(f.parts, name) for name, f in fused_matrices(config).items()}
    vectors = {
        name: np.asarray(f.join([vector(part) for part in f.parts]), np.float32)
        for name, f in fused_vectors(config).items()
    }
    return PackedModel(config, matrices, vectors, "")


def _short(tensor: str) -> str:
    return tensor.split(".")[-2]


def _shapes(config: ModelConfig) -> dict[str, tuple[int, int]]:
    """Of a tensor: rows, columns; a vector has the rows alone."""
    hidden, dim = config.hidden, config.head_dim
    queries, keys = config.heads * dim, config.kv_heads * dim
    return {
        "embed_tokens": (config.vocab, hidden),
        "lm_head": (config.vocab, hidden),
        "q_proj": (queries, hidden),
        "k_proj": (keys, hidden),
        "v_proj": (keys, hidden),
        "o_proj": (hidden, queries),
        "gate_proj": (config.intermediate, hidden),
        "up_proj": (config.intermediate, hidden),
        "down_proj": (hidden, config.intermediate),
        "input_layernorm": (hidden, 1),
        "post_attention_layernorm": (hidden, 1),
        "norm": (hidden, 1),
        "q_norm": (dim, 1),
        "k_norm": (dim, 1),
    }


class Steps:
    """One model over a pool of its own; each sequence has all the blocks of its context."""

    def __init__(self, model: PackedModel, level: Level, block: int, threads: int) -> None:
        self.config, self.block = model.config, block
        self.kernels = Kernels(model, rope_frequencies(model.config))
        blocks = -(-CONTEXT // block)
        self.tables = np.arange(3 * blocks, dtype=np.int32).reshape(3, blocks)[::-1].copy()
        config = self.config
        size = 4 * block * config.layers * config.kv_heads * config.head_dim
        self.pool = np.zeros(3 * blocks * size, np.uint8)
        self.kernels.bind(self.pool.data, 3 * blocks, size, block, threads, level)
        self.rng = np.random.default_rng(0)

    def step(self, parts: Sequence[tuple[int, int, int]]) -> None:
        """(sequence, first position, rows) of each; logits of every second row."""
        starts = np.cumsum([0, *(rows for _, _, rows in parts)], dtype=np.int32)
        positions = [np.arange(first, first + rows) for _, first, rows in parts]
        count = int(starts[-1])
        tables = [
            self.tables[sequence, : -(-(first + rows) // self.block)].copy()
            for sequence, first, rows in parts
        ]
        lengths = [len(table) for table in tables]
        batch = RaggedBatch(
            tokens=self.rng.integers(0, self.config.vocab, count),
            positions=np.concatenate(positions),
            starts=starts,
            tables=np.concatenate(tables),
            table_starts=np.cumsum([0, *lengths[:-1]], dtype=np.int32),
            wanted=np.arange(count, dtype=np.int64),
        )
        logits = [
            np.empty(self.config.vocab, np.float32) if row % 2 else None for row in range(count)
        ]
        best = self.kernels.step(batch, logits)
        for row, token in zip(logits, best, strict=True):
            if row is not None:
                assert np.isfinite(row).all()
                assert token == row.argmax()
                self.draw(row)

    def share(self, sequence: int, tokens: int) -> None:
        """The others begin with its blocks."""
        blocks = tokens // self.block
        self.tables[:, :blocks] = self.tables[sequence, :blocks]

    def draw(self, row: Array) -> None:
        for cut in ({}, {"top_k": 5}, {"top_p": 0.9}, {"min_p": 0.1, "top_k": 30}):
            params = DrawParams(**{"temperature": 0.8, "top_p": 1.0, "seed": 3} | cut)
            assert 0 <= self.kernels.draw(row, params) < self.config.vocab


def drive(level: Level, kind: Kind, block: int, threads: int, *, odd: bool) -> None:
    steps = Steps(packed_model(kind, odd=odd), level, block, threads)
    steps.step([(0, 0, 37), (1, 0, 1), (2, 0, 8)])
    steps.step([(0, 37, 2), (1, 1, 130), (2, 8, 9)])
    steps.step([(0, 39, 1), (1, 131, 1), (2, 17, 1)])
    steps.share(1, 128)
    steps.step([(0, 130, 2), (1, 132, 1), (2, 131, 3)])
    steps.step([(1, 133, CONTEXT - 133)])
    steps.kernels.close()


def main(path: str, overrun: str = "") -> None:
    """Every level of this CPU. Or, to see that it would be found, one key and one value beyond the
    end of a pool."""
    with patch.object(library, "built_library", lambda: Path(path)):
        if overrun:
            steps = Steps(packed_model(Kind.BF16, odd=True), Level.AVX2, 32, 1)
            # The second token's key lies right behind the pool, where the guard is. At a block's
            # first token its values would be cleared before, and those lie far beyond.
            steps.tables[0, 0] = steps.tables.size
            steps.step([(0, 1, 1)])
            return
        for level in range(Level.AVX2, library.best_level() + 1):
            for kind in Kind:
                for block, threads in ((16, 2), (32, 1), (64, 2)):
                    odd = kind in (Kind.BF16, Kind.QUADS8)
                    drive(Level(level), kind, block, threads, odd=odd)
            sys.stdout.write(f"{Level(level).name}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
