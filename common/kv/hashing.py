"""Names of KV: a chain of SHA-256 over 16-token units.

The *root* of a chain binds everything that makes equal tokens mean different KV: the format
version, the model with its arithmetic, the adapter, the tenant's salt. Each unit's hash covers its
parent, so one hash names a whole prefix. A block of k units is named by the hash of its last unit,
and the same name is used in every process and tier. Encoding: a tag byte, then length-prefixed
fields, so that no two different tuples encode alike (an adapter called "x" is never a salt called
"x").
"""

import hashlib
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from common.domain.ids import UnitHash

UNIT_TOKENS = 16
HASH_BYTES = 32
_VERSION = b"twinfleet/kv/1"


def chain_root(weights_digest: str, adapter_digest: str = "", salt: str = "") -> UnitHash:
    """The parent of every first unit in one namespace."""
    h = hashlib.sha256(b"R")
    for part in (_VERSION, weights_digest.encode(), adapter_digest.encode(), salt.encode()):
        h.update(struct.pack("<I", len(part)))
        h.update(part)
    return UnitHash(h.digest())


def extend_chain(parent: UnitHash, tokens: Sequence[int] | npt.NDArray[np.int32]) -> list[UnitHash]:
    """Hashes of the whole units in `tokens`, continuing from `parent`; a partial unit has no
    name."""
    data = np.asarray(tokens, dtype="<i4").tobytes()
    unit = UNIT_TOKENS * 4
    hashes: list[UnitHash] = []
    for start in range(0, len(data) - unit + 1, unit):
        parent = UnitHash(hashlib.sha256(b"U" + parent + data[start : start + unit]).digest())
        hashes.append(parent)
    return hashes


def block_names(units: Sequence[UnitHash], block_tokens: int) -> list[UnitHash]:
    """Names of the whole blocks that these units make up."""
    per_block = block_tokens // UNIT_TOKENS
    return list(units[per_block - 1 :: per_block])
