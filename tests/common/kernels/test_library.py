"""The C functions behind Python objects: refusals, levels, and arrays in and out."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from common.checkpoint.rope import rope_frequencies
from common.kernels import library as module
from common.kernels.build import compiler
from common.kernels.library import (
    PHASES,
    Kernels,
    Level,
    NativeUnavailable,
    RaggedBatch,
    best_level,
    check_shape,
    load_library,
    peak_flops,
)
from common.kernels.packed_model import PackedModel, pack_model
from tests.support.native_bench import NEEDS_NATIVE, grouped_llama

BLOCK_TOKENS = 16


def test_they_are_built_where_they_can_be() -> None:
    """Other tests skip without them, and must not do so because a build was forgotten."""
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text() if cpuinfo.exists() else ""
    if compiler() is None or not all(flag in flags for flag in (" avx2", " fma", " f16c")):
        pytest.skip("no compiler, or a CPU without AVX2")
    assert best_level() > Level.NONE, "make setup builds the kernels"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> PackedModel:
    folder = tmp_path_factory.mktemp("llama")
    return pack_model(grouped_llama(folder / "m"), "bf16", folder / "cache")


@pytest.fixture
def kernels(packed: PackedModel) -> Iterator[Kernels]:
    made = Kernels(packed, rope_frequencies(packed.config))
    yield made
    made.close()


@pytest.fixture
def nothing_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    load_library.cache_clear()
    monkeypatch.setattr(module, "built_library", lambda: tmp_path / "none.so")
    yield
    load_library.cache_clear()


def bind(kernels: Kernels, packed: PackedModel, level: Level, threads: int = 1) -> None:
    config = packed.config
    block = 4 * config.layers * config.kv_heads * config.head_dim * BLOCK_TOKENS
    kernels.bind(memoryview(bytearray(4 * block)), 4, block, BLOCK_TOKENS, threads, level)


def batch_of(tokens: list[int], wanted: list[int]) -> RaggedBatch:
    return RaggedBatch(
        tokens=np.array(tokens, dtype=np.int64),
        positions=np.arange(len(tokens), dtype=np.int64),
        starts=np.array([0, len(tokens)], dtype=np.int32),
        tables=np.arange(4, dtype=np.int32),
        table_starts=np.zeros(1, dtype=np.int32),
        wanted=np.array(wanted, dtype=np.int64),
    )


@pytest.mark.usefixtures("nothing_built")
def test_a_library_that_is_not_built_is_level_none_and_says_what_builds_it() -> None:
    assert best_level() is Level.NONE
    with pytest.raises(NativeUnavailable, match="make setup"):
        load_library()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"head_dim": 80}, "head_dim must be a multiple of 32"),
        ({"heads": 34, "kv_heads": 2}, "at most 16 query heads"),
        ({"hidden": 106}, "hidden must be a multiple of 4"),
        ({"intermediate": 150}, "intermediate must be a multiple of 4"),
    ],
)
def test_sizes_that_do_not_suit_are_refused(
    packed: PackedModel, changes: dict[str, int], complaint: str
) -> None:
    check_shape(packed.config)
    with pytest.raises(NativeUnavailable, match=complaint):
        check_shape(replace(packed.config, **changes))


@NEEDS_NATIVE
def test_rows_get_their_best_id_and_logits_only_where_there_is_room_for_them(
    kernels: Kernels, packed: PackedModel
) -> None:
    bind(kernels, packed, best_level())
    logits = np.full((2, packed.config.vocab), np.nan, dtype=np.float32)
    best = kernels.step(batch_of([5, 6, 7], [2, 0, 1]), [logits[0], None, logits[1]])
    assert np.isfinite(logits).all()
    assert best[[0, 2]].tolist() == logits.argmax(axis=1).tolist()
    assert kernels.step(batch_of([5, 6, 7], [0]), [None]).tolist() == [best[1]]


@NEEDS_NATIVE
def test_a_step_that_nobody_draws_from_is_a_step(kernels: Kernels, packed: PackedModel) -> None:
    bind(kernels, packed, best_level())
    assert kernels.step(batch_of([5, 6, 7], []), []).tolist() == []


@NEEDS_NATIVE
def test_seconds_are_counted_by_phase(kernels: Kernels, packed: PackedModel) -> None:
    bind(kernels, packed, best_level())
    assert kernels.seconds() == dict.fromkeys(PHASES, 0.0)
    kernels.step(batch_of([5, 6, 7], [2]), [None])
    spent = kernels.seconds()
    assert all(value >= 0 for value in spent.values())
    assert spent["qkv"] > 0
    assert spent["head"] > 0


@NEEDS_NATIVE
def test_a_level_above_the_machines_is_refused(kernels: Kernels, packed: PackedModel) -> None:
    if best_level() is Level.AMX:
        pytest.skip("this machine has them all")
    with pytest.raises(NativeUnavailable, match="no AMX"):
        bind(kernels, packed, Level.AMX)


@NEEDS_NATIVE
def test_it_can_be_closed_twice(packed: PackedModel) -> None:
    made = Kernels(packed, rope_frequencies(packed.config))
    made.close()
    made.close()


@NEEDS_NATIVE
def test_the_peak_is_measured_at_levels_this_machine_has() -> None:
    assert peak_flops(1) > 1e9
    assert load_library().tf_peak_flops(best_level() + 1, 1) == 0
