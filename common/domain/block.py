"""What a KV block is to somebody who does not compute with it.

A *block* holds the keys and values of `block_tokens` consecutive tokens for every layer in one
contiguous region. A *layout tag* says how to read it; a *descriptor* says where a copy lies in its
holder's arena. Blocks move by pull: the holder publishes descriptors, the receiver reads.
"""

from dataclasses import dataclass
from typing import Literal

Dtype = Literal["float32", "bfloat16", "float16", "uint8"]
DTYPE_BYTES: dict[Dtype, int] = {"float32": 4, "bfloat16": 2, "float16": 2, "uint8": 1}
Arrangement = Literal["LKHTD", "LKHTD-VT"]
"""LKHTD, the canonical one, names the axes from slowest to fastest: layer, key/value, head, token,
dim. LKHTD-VT is the same but for the values, which lie [dim, token] within a head: what a matrix
unit wants, which sums over tokens there and over dims in the keys."""


@dataclass(frozen=True, slots=True)
class LayoutTag:
    """How the bytes of one block are arranged. Two blocks with equal tags are interchangeable."""

    dtype: Dtype
    block_tokens: int
    layers: int
    head_start: int
    """First KV head held here, and one past the last: a tensor-parallel worker holds a range."""
    head_stop: int
    head_dim: int
    arrangement: Arrangement = "LKHTD"

    @property
    def token_bytes(self) -> int:
        """Bytes one token occupies over all layers, keys and values together."""
        heads = self.head_stop - self.head_start
        return self.layers * 2 * heads * self.head_dim * DTYPE_BYTES[self.dtype]

    @property
    def block_bytes(self) -> int:
        return self.token_bytes * self.block_tokens

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Shape of one block in the canonical arrangement."""
        heads = self.head_stop - self.head_start
        return (self.layers, 2, heads, self.block_tokens, self.head_dim)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One copy of one block in its holder's arena.

    A reader copies `length` bytes at `offset`, then checks that the slot's generation is still
    `generation` and that the crc32c of what it copied is `crc`. Anything else is a miss.
    """

    slot: int
    generation: int
    crc: int


@dataclass(frozen=True, slots=True)
class ArenaRef:
    """Where the arena of one process can be read. `epoch` is the holder's incarnation."""

    holder: str
    epoch: int
    host: str
    """Readers on the same host map the memory; others ask `data_address` for frames."""
    socket_path: str
    data_address: str
    slot_bytes: int
    slots: int
