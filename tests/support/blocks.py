"""Small named blocks: chains of units from a seed, and arenas that hold them."""

from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt

from common.domain.block import Descriptor, LayoutTag
from common.domain.ids import UnitHash
from common.kv.hashing import UNIT_TOKENS, block_names, chain_root, extend_chain
from common.kv.layout import to_canonical
from common.store.arena import Arena

LAYOUT = LayoutTag("float32", 32, 1, 0, 1, 16)
"""Blocks of two units and 4096 bytes."""
ROOT = chain_root("test-model")


@dataclass(frozen=True)
class Chain:
    """The first blocks of one prompt."""

    seed: int
    blocks: int
    layout: LayoutTag = LAYOUT

    @property
    def units(self) -> list[UnitHash]:
        """Equal seeds share a prefix, whatever their lengths."""
        tokens = np.random.default_rng(self.seed).integers(0, 2**31, 4096, dtype=np.int64)
        return extend_chain(ROOT, tokens[: self.blocks * self.layout.block_tokens])

    @property
    def names(self) -> list[UnitHash]:
        return block_names(self.units, self.layout.block_tokens)

    @property
    def units_a_block(self) -> int:
        return self.layout.block_tokens // UNIT_TOKENS

    def content(self, block: int) -> bytes:
        """Bytes of one block, a function of its name."""
        seed = int.from_bytes(self.names[block][:8])
        return np.random.default_rng(seed).bytes(self.layout.block_bytes)

    def write(self, arena: Arena, first_slot: int = 0) -> list[Descriptor]:
        """Put the blocks into consecutive slots."""
        for i in range(self.blocks):
            arena.bump(first_slot + i)
            arena.view(first_slot + i)[: self.layout.block_bytes] = self.content(i)
        return [arena.describe(first_slot + i, self.layout.block_bytes) for i in range(self.blocks)]


def block_floats(layout: LayoutTag, data: memoryview) -> npt.NDArray[np.float32]:
    """What a block of any layout holds, exactly, in the canonical arrangement."""
    bits = to_canonical(layout, data)
    match layout.dtype:
        case "float32":
            return bits.view(np.float32)
        case "bfloat16":
            return (bits.astype(np.uint32) << 16).view(np.float32)
        case "float16":
            return bits.view(np.float16).astype(np.float32)
        case "uint8":
            return bits.astype(np.float32)
        case _:
            assert_never(layout.dtype)
