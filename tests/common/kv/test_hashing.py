"""Names of KV: fixed for ever, different for whatever makes KV different."""

import hashlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.domain.ids import UnitHash
from common.kv.hashing import HASH_BYTES, UNIT_TOKENS, block_names, chain_root, extend_chain

TOKENS = st.lists(st.integers(0, 2**31 - 1), max_size=100)
PARTS = st.text(max_size=6)


def test_golden_names() -> None:
    """Another value here orphans every cached block in every tier."""
    root = chain_root("digest", "adapter", "salt")
    units = extend_chain(root, range(40))
    assert root.hex() == ROOT_HEX
    assert [unit.hex() for unit in units] == UNITS_HEX


ROOT_HEX = "a687f99879a02e81090639b761408d2826e910c9904640468363684fce6be499"
UNITS_HEX = [
    "86647ead753e7d338c995acc5bd9321122e27a07183db1a72362c14fcb766885",
    "8b487fd355f951c3d41d2711a559f5ef84d10a2c67b2e5df44f80c9d39f614d0",
]


def test_the_encoding_written_out_by_hand() -> None:
    fields = [b"twinfleet/kv/1", b"digest", b"", b"salt"]
    encoded = b"R" + b"".join(struct.pack("<I", len(field)) + field for field in fields)
    root = hashlib.sha256(encoded).digest()
    assert chain_root("digest", salt="salt") == root
    tokens = list(range(1, 17))
    unit = hashlib.sha256(b"U" + root + struct.pack("<16i", *tokens)).digest()
    assert extend_chain(UnitHash(root), tokens) == [unit]


@given(st.lists(st.tuples(PARTS, PARTS, PARTS), min_size=2, max_size=8, unique=True))
def test_different_namespaces_have_different_roots(parts: list[tuple[str, str, str]]) -> None:
    assert len({chain_root(*part) for part in parts}) == len(parts)


def test_a_salt_is_never_an_adapter_and_borders_do_not_slide() -> None:
    assert chain_root("m", adapter_digest="x") != chain_root("m", salt="x")
    assert chain_root("m", "ab", "c") != chain_root("m", "a", "bc")
    assert chain_root("ma", "b") != chain_root("m", "ab")
    assert chain_root("m") != chain_root("m", salt="\0")


def test_a_name_covers_everything_before_it() -> None:
    tokens = list(range(64))
    names = extend_chain(chain_root("m"), tokens)
    for place in range(64):
        changed = extend_chain(chain_root("m"), [*tokens[:place], 99, *tokens[place + 1 :]])
        unit = place // UNIT_TOKENS
        assert changed[:unit] == names[:unit]
        assert not set(changed[unit:]) & set(names)
    assert not set(extend_chain(chain_root("other"), tokens)) & set(names)
    assert len(set(extend_chain(chain_root("m"), [5] * 64))) == 4, "equal units in other places"


@given(TOKENS, st.integers(0, 6))
def test_a_chain_may_be_extended_in_steps(tokens: list[int], units: int) -> None:
    root = chain_root("m")
    whole = extend_chain(root, tokens)
    assert len(whole) == len(tokens) // UNIT_TOKENS
    assert all(len(name) == HASH_BYTES for name in whole)
    border = min(units, len(whole))
    start = border * UNIT_TOKENS
    rest = extend_chain(whole[border - 1] if border else root, tokens[start:])
    assert whole[:border] + rest == whole


def test_lists_and_arrays_of_any_width_give_the_same_names() -> None:
    tokens = list(range(1_000, 1_032))
    expected = extend_chain(chain_root("m"), tokens)
    for dtype in ("<i4", ">i4", np.int64, np.uint16):
        assert extend_chain(chain_root("m"), np.array(tokens, dtype=dtype)) == expected


@pytest.mark.parametrize(("block_tokens", "per_block"), [(16, 1), (32, 2), (64, 4)])
@pytest.mark.parametrize("length", [0, 15, 16, 31, 32, 33, 63, 64, 65, 160])
def test_a_block_is_named_by_its_last_unit(block_tokens: int, per_block: int, length: int) -> None:
    units = extend_chain(chain_root("m"), range(length))
    names = block_names(units, block_tokens)
    assert len(names) == length // block_tokens
    assert names == [units[(block + 1) * per_block - 1] for block in range(len(names))]


def test_caches_of_different_block_sizes_agree_on_units_and_common_borders() -> None:
    units = extend_chain(chain_root("m"), range(256))
    small, medium, large = (block_names(units, size) for size in (16, 32, 64))
    assert small == units
    assert medium == small[1::2]
    assert large == medium[1::2]
