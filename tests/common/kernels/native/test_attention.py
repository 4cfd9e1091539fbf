"""Attention over a block pool, on every CPU level, against a softmax in float64.

A lane's bits depend on its own query and keys alone: not on the size of blocks, where they lie,
other lanes, other kv heads in the same tile, or a second panel computed with it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from common.checkpoint.safetensors_file import widen_bfloat16
from common.checkpoint.stored import round_bfloat16
from tests.support.native_kernels import Attend, Float32Array, NativeKernels
from tests.support.tile_sums import bfloat16, in_pairs

Codes = npt.NDArray[np.uint16]
DIM = 64


@dataclass(frozen=True, slots=True)
class History:
    """Keys and values, bfloat16 [kv heads, tokens, DIM]."""

    keys: Codes
    values: Codes

    def head(self, index: int) -> "History":
        return History(self.keys[index : index + 1], self.values[index : index + 1])


def history(heads: int, tokens: int, seed: int) -> History:
    rng = np.random.default_rng(seed)
    keys, values = rng.normal(size=(2, heads, tokens, DIM)).astype(np.float32)
    return History(round_bfloat16(keys * 2), round_bfloat16(values))


def pool_of(past: History, block: int, seed: int) -> tuple[Codes, npt.NDArray[np.int32]]:
    """Blocks in a random order, keys [token][dim] and values [dim][token]. Keys that nobody wrote
    are NaN, values of a begun block zero."""
    heads, tokens = past.keys.shape[:2]
    count = -(-tokens // block)
    table = np.random.default_rng(seed).permutation(count + 2)[:count].astype(np.int32)
    pool = np.full((count + 2, 2, heads, block * DIM), 0x7FC0, np.uint16)
    for index, slot in enumerate(table):
        part = slice(index * block, min(tokens, (index + 1) * block))
        live = part.stop - part.start
        keys = pool[slot, 0].reshape(heads, block, DIM)
        keys[:, :live] = past.keys[:, part]
        values = pool[slot, 1].reshape(heads, DIM, block)
        values[:] = 0
        values[:, :, :live] = past.values[:, part].swapaxes(1, 2)
    return pool, table


@dataclass(frozen=True, slots=True)
class Lanes:
    queries: Float32Array
    """[states, DIM, 16]"""
    positions: Float32Array
    """[states, 16]; -1 where there is no query."""


def growing(tokens: int, seed: int) -> History:
    """Scores become larger and larger, so older results shrink at steps of a lane's own."""
    past = history(1, tokens, seed)
    size = np.geomspace(0.01, 40, tokens, dtype=np.float32)[None, :, None]
    return History(round_bfloat16(widen_bfloat16(past.keys) * size), past.values)


def lanes(states: int, tokens: int, seed: int) -> Lanes:
    """Queries of the last tokens, one a lane."""
    rng = np.random.default_rng(seed)
    queries = bfloat16(rng.normal(size=(states, DIM, 16)))
    positions = np.maximum(np.arange(16 * states) + tokens - 16 * states, -1).astype(np.float32)
    return Lanes(queries, positions.reshape(states, 16))


def attend(
    native: NativeKernels,
    past: History,
    asked: Lanes,
    block: int = 32,
    owners: list[int] | None = None,
) -> Float32Array:
    heads, tokens = past.keys.shape[:2]
    pool, table = pool_of(past, block, seed=block)
    owner = np.array([0] * 16 if owners is None else owners, np.float32)
    queries = np.stack(
        [np.stack([in_pairs(q * (owner == head)) for q in asked.queries]) for head in range(heads)]
    )
    states = len(asked.queries)
    call = Attend(
        pool.ctypes.data,
        table.ctypes.data,
        queries.ctypes.data,
        owner.ctypes.data,
        asked.positions.ctypes.data,
        block,
        heads,
        DIM,
        heads,
        states,
        tokens,
    )
    return native.attend(call)


def softmax(past: History, asked: Lanes) -> npt.NDArray[np.float64]:
    """[states, DIM, 16] with one kv head."""
    keys, values = (widen_bfloat16(x[0]).astype(np.float64) for x in (past.keys, past.values))
    scores = keys @ asked.queries.astype(np.float64) / np.sqrt(DIM)
    seen = np.arange(len(keys))[None, :, None] <= asked.positions[:, None, :]
    largest = np.where(seen, scores, -np.inf).max(axis=1, keepdims=True)
    weights = np.where(seen, np.exp(np.minimum(scores - largest, 0)), 0)
    total = weights.sum(axis=1, keepdims=True)
    return values.T @ (weights / np.where(total == 0, 1, total))


def assert_same_bits(actual: Float32Array, expected: Float32Array) -> None:
    np.testing.assert_array_equal(actual.view(np.uint32), expected.view(np.uint32))


PASTS = {"even": lambda tokens, seed: history(1, tokens, seed), "growing": growing}
TOKENS = [1, 5, 16, 33, 128, 129, 300]


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("states", [1, 2])
@pytest.mark.parametrize("kind", PASTS)
def test_attention_is_a_softmax_over_what_a_lane_may_see(
    native: NativeKernels, tokens: int, states: int, kind: str
) -> None:
    past, asked = PASTS[kind](tokens, seed=tokens), lanes(states, tokens, seed=states)
    found = attend(native, past, asked)
    # Weights are off by 2^-8 and half a step of the table at most, values below five, and the
    # mean of all is as far off again.
    error = np.abs(found - softmax(past, asked)).swapaxes(1, 2)[asked.positions >= 0]
    assert error.size
    assert error.max() < 10 * (2.0**-8 + np.log(2) / 256)
    assert np.sqrt(np.mean(error**2)) < 2.0**-9


def test_scores_may_be_as_large_as_they_like(native: NativeKernels) -> None:
    past, asked = history(1, 100, seed=10), lanes(1, 100, seed=10)
    huge = Lanes(bfloat16(asked.queries * 1e6), asked.positions)
    error = np.abs(attend(native, past, huge) - softmax(past, huge))
    assert np.median(error) < 1e-6


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("block", [16, 64])
def test_the_size_of_blocks_changes_no_bit(native: NativeKernels, tokens: int, block: int) -> None:
    past, asked = history(1, tokens, seed=tokens), lanes(1, tokens, seed=3)
    assert_same_bits(attend(native, past, asked, block), attend(native, past, asked))


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("kind", PASTS)
def test_every_level_gives_the_bits_of_avx2(
    native: NativeKernels, avx2: NativeKernels, tokens: int, kind: str
) -> None:
    past, asked = PASTS[kind](tokens, seed=tokens), lanes(2, tokens, seed=4)
    assert_same_bits(attend(native, past, asked), attend(avx2, past, asked))


@pytest.mark.parametrize("tokens", [40, 300])
@pytest.mark.parametrize("kind", PASTS)
def test_two_panels_together_are_each_alone(native: NativeKernels, tokens: int, kind: str) -> None:
    past, asked = PASTS[kind](tokens, seed=tokens), lanes(2, tokens, seed=5)
    together = attend(native, past, asked)
    for state in range(2):
        alone = Lanes(asked.queries[state : state + 1], asked.positions[state : state + 1])
        assert_same_bits(attend(native, past, alone)[0], together[state])


@pytest.mark.parametrize("block", [16, 32, 64])
def test_kv_heads_that_share_a_tile_are_each_alone(native: NativeKernels, block: int) -> None:
    past, asked = history(3, 150, seed=6), lanes(1, 150, seed=6)
    owners = [0] * 5 + [1] * 5 + [2] * 6
    together = attend(native, past, asked, block, owners)
    for head in range(3):
        alone = attend(native, past.head(head), asked, block)
        own = np.array(owners) == head
        assert_same_bits(together[0][:, own].copy(), alone[0][:, own].copy())


@pytest.mark.parametrize("kind", PASTS)
def test_a_lane_does_not_depend_on_its_neighbours(native: NativeKernels, kind: str) -> None:
    past, asked = PASTS[kind](200, seed=7), lanes(1, 200, seed=7)
    others = lanes(1, 200, seed=8)
    alone = np.full((1, 16), -1, np.float32)
    for lane in (0, 6, 15):
        others.queries[:, :, lane] = asked.queries[:, :, lane]
        alone[0, lane] = asked.positions[0, lane]
        expected = attend(native, past, asked)[0][:, lane].copy()
        for neighbours in (others, Lanes(asked.queries, alone)):
            assert_same_bits(attend(native, past, neighbours)[0][:, lane].copy(), expected)
        alone[0, lane] = -1


def test_keys_that_nobody_may_see_change_no_bit(native: NativeKernels) -> None:
    past = history(1, 200, seed=9)
    asked = lanes(1, 100, seed=9)
    shorter = History(past.keys[:, :100], past.values[:, :100])
    assert_same_bits(attend(native, past, asked), attend(native, shorter, asked))
